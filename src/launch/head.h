// Node 0 of a job: what head.c (the course of the job) and head_nodes.c (who is connected) share.
#pragma once
#include <netinet/in.h>

#include "base/str.h"
#include "launch/control.h"
#include "launch/launch.h"
#include "launch/local_job.h"

typedef struct head_member {
    control line;
    bool here, told, over; // told: what to run; over: its ranks have ended, or it is gone
    outcome result;
    char label[24]; // its name for mpirun: an address, which nobody has to look up
    char host[64];
} head_member;

typedef struct head_agent { // of mpirun, for the daemon of a node
    control line;
    int node; // 0: has not said
} head_agent;

typedef struct head {
    arena *a;
    const launch_job *job;
    local_job local;
    job_secret secret;
    const char *secret_path; // left for this machine; NULL: none
    char address[INET_ADDRSTRLEN];
    int listener, agent_listener;
    reception *callers;
    head_member *members; // by node; the first is not used
    int n_here;
    control newcomers[MAX_CALLERS]; // have proven the secret, and not yet said who they are
    int n_newcomers, n_agents;
    head_agent *agents;                                     // [n_nodes]
    double until_s, say_s, started_s;                       // clock; so are the next
    double first_over_s, all_over_s, mpirun_over_s, lost_s; // 0: not yet
    const char *lost;                                       // which node
    bool stop_asked;                                        // by a signal here
    int verdict;                                            // exit status; -1: not yet
    const char *why;
} head;

void head_end(head *h, int status, const char *why);
DRV_CHECKED drv_status head_listen(head *h);
void head_stop_listening(head *h); // for nodes: all are there
void head_poll(head *h, int ms);
void head_serve_nodes(head *h);
void head_serve_agents(head *h);
void head_close(head *h);
