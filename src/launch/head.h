// Node 0 of a job: the loop over its phases. It meets the nodes (meeting.h), chooses those of the
// next attempt (node_choice.h), measures them (node_measure.c), starts and watches the attempt
// (attempt.h) and decides by how it ended (supervisor.h) whether another one follows.
#pragma once
#include "launch/attempt.h"
#include "launch/meeting.h"

// The ends of all attempts so far.
typedef struct attempt_history {
    attempt_end *ends; // free(3)
    int n, cap;
} attempt_history;

// The exit status of the job, and why.
typedef struct job_verdict {
    int status; // exit status; -1: not yet
    const char *why;
} job_verdict;

typedef struct head {
    arena *a;
    const launch_job *job;
    local_job local; // processes of this node
    meeting meeting;
    mpirun_agents agents;
    attempt_parts parts; // the four above, shared by attempts
    attempt attempt;     // the current attempt, or the last one
    attempt_history history;
    job_verdict verdict;
} head;

// Makes node 0 of a job, without other nodes yet; *self must stay at its address.
DRV_CHECKED drv_status head_open(head *self, arena *a, const launch_job *job);
// Sets the job's exit status, unless it is set.
void head_end(head *self, int status, const char *why);
// Waits for at most ms, then handles signals, nodes and agents.
void head_serve(head *self, int ms);
// Serves until mpirun has ended, and closes the current attempt.
void head_close_attempt(head *self);
void head_close(head *self);

// --- node_measure.c
// Returns whether one of these nodes, by place, still has to be measured.
bool measure_is_due(const head *self, const int *nodes, int n_nodes);
// Measures all connected nodes at once, and reports outliers. A failure is reported and does not
// stop the job; a request to stop does.
void measure_nodes(head *self);
