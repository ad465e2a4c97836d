// Meets the other nodes of a job at node 0: who is connected, who comes, who is lost, and what they
// say. Whoever owns the meeting is called for what bears on the ranks. One address is listened at;
// only those who have proven the secret are read from.
#pragma once
#include <netinet/in.h>
#include <poll.h>

#include "launch/control.h"
#include "launch/launch.h"
#include "launch/local_job.h"

// A node of the job, as node 0 knows it.
typedef struct met_node {
    control line;
    bool here;     // connected
    bool told;     // what to run in this attempt
    bool ready;    // nothing of an earlier attempt is left on it
    bool excluded; // it has failed too often
    bool measured; // beside others, by this process of it
    double share;  // its lowest one of a median then; 1: it does not stand out
    int place;     // in the attempt under way; -1: it waits
    bool over;     // its ranks of that attempt have ended, or it is gone
    bool lacked_memory;
    outcome result;
    double came_s;              // clock
    char label[24];             // its name for mpirun: an address, which nobody has to look up
    char host[64], process[24]; // process: a number of its own
} met_node;

typedef struct meeting_calls {
    void (*result)(void *ctx, int node, outcome result, bool lacked_memory); // of its ranks
    void (*lost)(void *ctx, int node, const char *why); // it is gone; it still has its place
    void (*leaves)(void *ctx, int node);                // a signal has asked it to stop
} meeting_calls;

typedef struct meeting {
    arena *a;
    const launch_job *job;
    const meeting_calls *calls;
    void *ctx;
    job_secret secret;
    const char *secret_folder; // left for this machine; NULL: none
    int secret_fd;             // holds it
    char address[INET_ADDRSTRLEN];
    int listener, port; // port: at which it listens
    reception *callers;
    control newcomers[MAX_CALLERS]; // have proven the secret, and not yet said who they are
    int n_newcomers;
    met_node *members; // by node; of the first only `measured`, `share` and the label are set
    int n_here;
    bool has_begun; // an attempt has been started: who comes now waits for the next one
} meeting;

// Begins a meeting to which nobody has come; calls and ctx must outlive it.
void meeting_init(meeting *self, arena *a, const launch_job *job, const meeting_calls *calls,
        void *ctx);
DRV_CHECKED drv_status meeting_listen(meeting *self);
void meeting_stop_listening(meeting *self);
// Fills in what can be read from, at most n_nodes + 2 * MAX_CALLERS + 1; returns how many.
int meeting_fds(const meeting *self, struct pollfd *fds);
// Takes who comes, and what the nodes have said.
void meeting_serve(meeting *self);
// Returns whether a node is there for the next attempt.
bool meeting_is_usable(const meeting *self, int node);
void meeting_close(meeting *self);
