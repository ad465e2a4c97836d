// Node 0 meets the other nodes of a job: knows which are connected, new or lost, and reads their
// messages. It calls its owner for everything that concerns the ranks. It listens at one address,
// and reads only from processes that have proved that they know the secret.
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
    bool told;     // has got the command for this attempt
    bool ready;    // has ended everything of earlier attempts
    bool excluded; // it has failed too often
    bool measured; // together with others, in its present process
    double share;  // its lowest share of a median then; 1: not an outlier
    int place;     // in the current attempt; -1: it waits
    bool over;     // its ranks of that attempt have ended, or it is lost
    bool lacked_memory;
    outcome result;
    double came_s;              // clock: when it connected
    char label[24];             // its name for mpirun: an address, so that nobody looks it up
    char host[64], process[24]; // process: its id
} met_node;

typedef struct meeting_calls {
    void (*result)(void *ctx, int node, outcome result, bool lacked_memory); // of its ranks
    void (*lost)(void *ctx, int node, const char *why); // it keeps its place until the attempt ends
    void (*leaves)(void *ctx, int node);                // a signal has asked the node to stop
} meeting_calls;

typedef struct meeting {
    arena *a;
    const launch_job *job;
    const meeting_calls *calls;
    void *ctx;
    job_secret secret;
    const char *secret_folder; // left for other nodes on this machine; NULL: none
    int secret_fd;             // holds the lock on it
    char address[INET_ADDRSTRLEN];
    int listener, port; // port: where it listens
    reception *callers;
    control newcomers[MAX_CALLERS]; // have proved the secret, but not sent a hello
    int n_newcomers;
    met_node *members; // by node; of node 0 only `measured`, `share` and the label are set
    int n_here;
    bool has_begun; // an attempt has been started: new nodes wait for the next one
} meeting;

// Begins a meeting without other nodes; calls and ctx must outlive it.
void meeting_init(meeting *self, arena *a, const launch_job *job, const meeting_calls *calls,
        void *ctx);
DRV_CHECKED drv_status meeting_listen(meeting *self);
void meeting_stop_listening(meeting *self);
// Fills in descriptors to read from, at most n_nodes + 2 * MAX_CALLERS + 1; returns their number.
int meeting_fds(const meeting *self, struct pollfd *fds);
// Accepts new nodes, and reads messages.
void meeting_serve(meeting *self);
// Returns whether a node can take part in the next attempt.
bool meeting_is_usable(const meeting *self, int node);
void meeting_close(meeting *self);
