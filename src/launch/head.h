// Node 0 of a job: what its files share. head.c is the loop over worlds, world.c one of them,
// head_nodes.c who is connected, head_check.c which of them stand out, head_agents.c the agents of
// mpirun, head_record.c what the run directory says and is told.
// Legend: node is a number of the job, place one of the world: the ranks of place p are p * ranks
// and up.
#pragma once
#include <netinet/in.h>

#include "base/str.h"
#include "launch/control.h"
#include "launch/launch.h"
#include "launch/local_job.h"
#include "launch/supervisor.h"
#include "watch/run_events.h"
#include "watch/run_status.h"

typedef struct head_member {
    control line;
    bool here;     // connected
    bool told;     // what to run in this world
    bool ready;    // nothing of an earlier world is left on it
    bool excluded; // it has failed too often
    bool measured; // beside others, by this process of it
    double share;  // its lowest one of a median then; 1: it does not stand out
    int place;     // in the world under way; -1: it waits
    bool over;     // its ranks of that world have ended, or it is gone
    bool lacked_memory;
    outcome result;
    double came_s;              // clock
    char label[24];             // its name for mpirun: an address, which nobody has to look up
    char host[64], process[24]; // process: a number of its own
} head_member;

typedef struct head_agent { // of mpirun, for the daemon of a node
    control line;
    int node; // 0: has not said
} head_agent;

// One mpirun and its ranks.
typedef struct world {
    int number;          // from 1; 0: there was none
    bool runs, checks;   // checks: one rank of each node measures it
    int n_nodes, *nodes; // by place; the first is node 0
    world_layout layout;
    double started_s, first_over_s, all_over_s, mpirun_over_s, lost_s; // clock; 0: not yet
    const char *lost;                                                  // which node is gone
    int lost_node;                                                     // -1: none
    int first_killed;       // the node whose rank ended without a word before all others; -1: none
    bool asked;             // a signal has asked it to stop
    bool grows;             // it is stopped for nodes that have come
    int64_t attempt_before; // of the run, when it began
    int64_t saved_seen;     // the last checkpoint that was seen
    double looked_s;        // clock: at status.json
} world;

typedef struct head {
    arena *a;
    const launch_job *job;
    local_job local;
    job_secret secret;
    const char *secret_folder; // left for this machine; NULL: none
    int secret_fd;             // holds it
    char address[INET_ADDRSTRLEN];
    int port; // of `listener`
    int listener, agent_listener;
    reception *callers;
    head_member *members; // by node; of the first only `measured` and `share` are set
    int n_here;
    control newcomers[MAX_CALLERS]; // have proven the secret, and not yet said who they are
    int n_newcomers, n_agents;
    head_agent *agents; // [n_nodes]
    world world;
    world_end *ends; // of all worlds that have failed, free(3)
    int n_ends, cap_ends;
    double until_s, say_s; // clock: how long nodes are waited for
    int verdict;           // exit status; -1: not yet
    const char *why;
} head;

// --- head.c
void head_end(head *h, int status, const char *why);
// Asks for all signals that have come, and what else is to be looked at often.
void head_serve(head *h, int ms);
// Returns whether the nodes that are there now could make a larger world; *n_nodes: of how many.
bool head_could_grow(const head *h, int *n_nodes);
// Returns whether a node is there for the next world.
bool head_is_usable(const head *h, int node);

// --- head_check.c
// Returns whether one of these nodes, by place, has not been measured and is to be.
bool check_is_due(const head *h, const int *nodes, int n_nodes);
// Measures all nodes that are there, at once, and says which stand out. What goes wrong is said and
// stops nothing but a job that is asked to.
void check_nodes(head *h);

// --- head_nodes.c
DRV_CHECKED drv_status head_listen(head *h);
void head_stop_listening(head *h);
void head_poll(head *h, int ms);
void head_serve_nodes(head *h);
void head_close(head *h);

// --- head_agents.c
DRV_CHECKED drv_status head_open_agents(head *h); // of the next world
void head_serve_agents(head *h);
void head_let_agents_go(head *h, int node, int status);
void head_close_agents(head *h);

// --- world.c
// Starts ranks on the nodes of h->world, or the check of them. DRV_E_IO.
DRV_CHECKED drv_status world_start(head *h);
// True: it has ended; *end is how, and *why in words ("": its ranks have said so).
bool world_look(head *h, world_end *end, const char **why);
// Notes that a node of the world has ended its ranks, or is gone.
void world_node_over(head *h, int node, outcome result, bool lacked_memory);
void world_node_lost(head *h, int node, const char *why);
// Has every node end what is left, and this one.
void world_close(head *h);

// --- head_record.c
// Looks up the number of the run's last attempt, 0: none; *saved_step -1: none.
void record_look(const head *h, int64_t *attempt, int64_t *saved_step);
// status.json, where this world has written it.
bool record_said(const head *h, run_status *out);
// Lines of events.jsonl, about the world that has ended or the one that follows it.
void record_restart(const head *h, const world_end *end, const decision *made);
void record_exclusion(const head *h, const world_end *end);
void record_layout(const head *h, const world_layout *layout);
