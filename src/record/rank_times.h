// Measures what each rank spends its steps on, to show which rank the others wait for, and why.
#pragma once
#include "comm/comm.h"

// Seconds of a step on one rank: its own (computing, waiting for rows, waiting for a checkpoint
// that reads the weights), and those in which it waited for messages of others.
typedef struct rank_time {
    double compute, data, save, wait;
    double sent; // bytes that it sent to others
    // Energy of its host, if this rank reads it, over so many steps; 0 steps: not read since.
    double joules, energy_steps;
} rank_time;

enum { RECENT_STEPS = 5 }; // steps whose times travel together

typedef struct rank_times {
    comm *comm;
    float (*recent)[4]; // [RECENT_STEPS] compute, data, save, wait, since they travelled
    int n_recent;
    float *recent_of;   // [ranks][RECENT_STEPS][4], as they came
    rank_time *step_of; // by rank: one of those steps
    rank_time sum;      // of the steps since they were shared; energy: as it was last read
    int64_t steps;
    rank_time *of;      // by rank: mean of the steps before that
    int n;              // 0: one rank alone, or not shared yet
    int slowest;        // the rank with the most seconds of its own
    const char *reason; // what it has more of than the others: "compute", "data" or "save"; "wait":
                        // no rank stands out, and messages take most of a step
} rank_times;

rank_times rank_times_new(arena *a, comm *c);
void rank_times_add(rank_times *t, const rank_time *step);
// Notes the energy of this rank's host in the last `steps` steps, for the next rank_times_share.
void rank_times_set_energy(rank_times *t, double joules, int64_t steps);
// Gives all ranks the means of all since the last call, 56 bytes of each: every rank calls it.
DRV_CHECKED drv_status rank_times_share(rank_times *t);
// Gives all ranks each of the last steps, every RECENT_STEPS steps, 80 bytes of each rank, for
// rank_times_recent. *there is false in between. Every rank calls it after each rank_times_add.
DRV_CHECKED drv_status rank_times_share_recent(rank_times *t, bool *there);
// Returns the times of all ranks in the step number i of those, 0 <= i < RECENT_STEPS; `sent` is
// not told.
const rank_time *rank_times_recent(rank_times *t, int i);
// Returns the seconds of a rank's own.
double rank_time_own(const rank_time *t);
// Returns the rank with the most seconds of its own among n that are given, and what it has more
// of, as `reason` above.
int rank_times_slowest(const rank_time *of, int n, const char **reason);
