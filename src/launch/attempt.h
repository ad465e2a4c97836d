// A launch attempt: one mpirun and its ranks on some of the nodes, from its start over what happens
// meanwhile to an end with a cause. Node is a number of the job, place one of the attempt: the
// ranks of place p are p * ranks and up.
#pragma once
#include "launch/mpirun_agents.h"
#include "launch/run_journal.h"

// The parts of node 0 that all attempts of a job share.
typedef struct attempt_parts {
    arena *a;
    const launch_job *job;
    local_job *local;
    meeting *meeting;
    mpirun_agents *agents;
} attempt_parts;

typedef struct attempt {
    const attempt_parts *parts;
    run_journal journal;
    int number;          // from 1; 0: there was none
    bool runs, measures; // measures: one rank of each node measures it
    int n_nodes, *nodes; // by place; the first is node 0
    attempt_layout layout;
    double started_s, first_over_s, all_over_s, mpirun_over_s, lost_s; // clock; 0: not yet
    const char *lost;                                                  // which node is gone
    int lost_node;                                                     // -1: none
    int first_killed;   // the node whose rank ended without a word before all others; -1: none
    bool asked;         // a signal has asked it to stop
    bool grows;         // it is stopped for nodes that have come
    int64_t saved_seen; // the last checkpoint that was seen
    double looked_s;    // clock: at status.json
} attempt;

// Returns an attempt that has not begun; parts and nodes must outlive it.
attempt attempt_of(const attempt_parts *parts, int number, int n_nodes, int *nodes);
// Starts its ranks, or those that measure the nodes. DRV_E_IO.
DRV_CHECKED drv_status attempt_start(attempt *self);
// Returns whether it has ended; *end is how, and *why in words ("": its ranks have said so).
bool attempt_watch(attempt *self, attempt_end *end, const char **why);
// Notes that a node of the attempt has ended its ranks, or is gone.
void attempt_node_over(attempt *self, int node, outcome result, bool lacked_memory);
void attempt_node_lost(attempt *self, int node, const char *why);
// Has every other node end what is left of it.
void attempt_tell_over(const attempt *self);
// Forgets the places of its nodes, once mpirun has ended.
void attempt_close(attempt *self);
// Returns its nodes, for the agents of mpirun.
attempt_nodes attempt_members(const attempt *self);
