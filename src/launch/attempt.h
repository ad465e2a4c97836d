// A launch attempt: one mpirun and its ranks on some of the nodes, from its start to its end and
// the cause of that. A node is numbered in the job, a place in the attempt: the ranks of place p
// are p * ranks and up.
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
    bool runs, measures; // measures: one rank of each node measures the node
    int n_nodes, *nodes; // by place; the first is node 0
    attempt_layout layout;
    double started_s, first_over_s, all_over_s, mpirun_over_s, lost_s; // clock; 0: not yet
    const char *lost;   // the message that names the lost node
    int lost_node;      // -1: none
    int first_killed;   // the node whose rank was the first to end without a report; -1: none
    bool asked;         // a signal has asked the attempt to stop
    bool grows;         // the launcher is stopping it so that new nodes can join
    int64_t saved_seen; // the last checkpoint in status.json
    double looked_s;    // clock: when status.json was last read
} attempt;

// Returns an attempt that has not started; parts and nodes must outlive it.
attempt attempt_of(const attempt_parts *parts, int number, int n_nodes, int *nodes);
// Starts its ranks, or the ranks that measure the nodes. DRV_E_IO.
DRV_CHECKED drv_status attempt_start(attempt *self);
// Returns whether it has ended; *end says how, and *why says why ("": its ranks have reported it).
bool attempt_watch(attempt *self, attempt_end *end, const char **why);
// Notes that a node's ranks in the attempt have ended, or that the node is lost.
void attempt_node_ended(attempt *self, int node, outcome result, bool lacked_memory);
void attempt_node_lost(attempt *self, int node, const char *why);
// Tells every other node to end what is left of the attempt.
void attempt_announce_end(const attempt *self);
// Clears the places of its nodes, once mpirun has ended.
void attempt_close(attempt *self);
// Returns its nodes, for the agents of mpirun.
attempt_nodes attempt_members(const attempt *self);
