// The agents that mpirun on node 0 runs instead of ssh: each has the command line of a node's
// daemon, which is sent to that node.
#pragma once
#include "launch/meeting.h"

typedef struct mpirun_agent {
    control line;
    int node; // 0: not read yet
} mpirun_agent;

typedef struct mpirun_agents {
    arena *a;
    int listener; // -1: not open
    mpirun_agent *agents;
    int n, most;
} mpirun_agents;

// The nodes of an attempt: members[nodes[place]] is at that place; the first is node 0.
typedef struct attempt_nodes {
    met_node *members;
    const int *nodes;
    int n_nodes;
} attempt_nodes;

mpirun_agents agents_of(arena *a, int n_nodes);
// Listens in a folder of this user for the agents of the next attempt.
DRV_CHECKED drv_status agents_open(mpirun_agents *self, const char *dir);
// Fills in the descriptors to read from, at most n_nodes + 1; returns their number.
int agents_fds(const mpirun_agents *self, struct pollfd *fds);
// Sends the command lines that have arrived to their nodes.
void agents_serve(mpirun_agents *self, const attempt_nodes *of);
// Ends the agent of a node with this status; mpirun takes it for the end of the daemon.
void agents_release(mpirun_agents *self, int node, int status);
void agents_close(mpirun_agents *self);
