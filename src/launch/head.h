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

// The status with which the job ends.
typedef struct job_verdict {
    int status; // exit status; -1: not yet
    const char *why;
} job_verdict;

typedef struct head {
    arena *a;
    const launch_job *job;
    local_job local; // the processes of this node
    meeting meeting;
    mpirun_agents agents;
    attempt_parts parts; // the four above, for attempts
    attempt attempt;     // under way, or the last one
    attempt_history history;
    job_verdict verdict;
} head;

// Makes node 0 of a job to which nobody has come; *self must stay where it is.
DRV_CHECKED drv_status head_open(head *self, arena *a, const launch_job *job);
// Gives the verdict, unless there is one.
void head_end(head *self, int status, const char *why);
// Waits for at most ms, and serves signals, nodes and agents.
void head_serve(head *self, int ms);
// Serves until mpirun has ended, and closes the attempt under way.
void head_close_attempt(head *self);
void head_close(head *self);

// --- node_measure.c
// Returns whether one of these nodes, by place, has not been measured and is to be.
bool measure_is_due(const head *self, const int *nodes, int n_nodes);
// Measures all nodes that are there, at once, and says which stand out. What goes wrong is said and
// stops nothing but a job that is asked to.
void measure_nodes(head *self);
