// Measures how each rank spends its steps, to show which rank the others wait for, and why.
#pragma once
#include "comm/comm.h"

// Seconds of a step on one rank: its own (computing, waiting for rows, waiting for a checkpoint
// that reads the weights), and those in which it waited for messages from others.
typedef struct rank_time {
    double compute, data, save, wait;
    double sent; // bytes that it sent to others
    // Energy of its host in the last energy_steps steps, if this rank reads it; 0: not read since.
    double joules, energy_steps;
} rank_time;

enum { RECENT_STEPS = 5 }; // steps whose times are sent together

typedef struct rank_times {
    comm *comm;
    float (*recent)[4]; // [RECENT_STEPS] compute, data, save, wait, not sent yet
    int n_recent;
    float *recent_of;   // [ranks][RECENT_STEPS][4], as received
    rank_time *step_of; // by rank: one of those steps
    rank_time sum;      // of the steps not shared yet; energy: as last read
    int64_t steps;
    rank_time *of;      // by rank: means of the steps that were shared last
    int n;              // 0: one rank alone, or not shared yet
    int slowest;        // the rank with the most own seconds
    const char *reason; // what it has more of than the others: "compute", "data" or "save"; "wait":
                        // no rank stands out, and messages take most of a step
} rank_times;

rank_times rank_times_new(arena *a, comm *c);
void rank_times_add(rank_times *t, const rank_time *step);
// Records the energy of this rank's host in the last `steps` steps, for the next rank_times_share.
void rank_times_set_energy(rank_times *t, double joules, int64_t steps);
// Sends all ranks the means since the last call, 56 bytes from each; every rank calls it.
DRV_CHECKED drv_status rank_times_share(rank_times *t);
// Sends all ranks the times of each of the last RECENT_STEPS steps, 80 bytes from each rank, for
// rank_times_recent. *there is false in steps in which nothing is sent. Every rank calls it after
// rank_times_add.
DRV_CHECKED drv_status rank_times_share_recent(rank_times *t, bool *there);
// Returns the times of all ranks in step i of these, 0 <= i < RECENT_STEPS, without `sent`.
const rank_time *rank_times_recent(rank_times *t, int i);
// Returns a rank's own seconds, without waiting for messages.
double rank_time_own(const rank_time *t);
// Adds the seconds and bytes of `of`, divided by `by`.
void rank_time_add(rank_time *to, const rank_time *of, double by);
// Names what a rank spends more time on than others do: "compute", "data" or "save".
const char *rank_time_excess(const rank_time *mine, const rank_time *others);
// Returns the rank with the most own seconds among n, and what it has more of (`reason` above).
int rank_times_slowest(const rank_time *of, int n, const char **reason);
