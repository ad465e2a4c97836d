// What the steps of each rank go into, so that a person sees which rank the others wait for, and why.
#pragma once
#include "comm/comm.h"

// Seconds of a step on one rank: its own (computing, waiting for rows, waiting for a checkpoint
// that reads the weights), and those in which it waited for messages of others.
typedef struct rank_time {
    double compute, data, save, wait;
    double sent; // bytes that it sent to others
} rank_time;

typedef struct rank_times {
    comm *comm;
    rank_time sum; // of the steps since they were shared
    int64_t steps;
    rank_time *of;      // by rank: mean of the steps before that
    int n;              // 0: one rank alone, or not shared yet
    int slowest;        // the rank with the most seconds of its own
    const char *reason; // what it has more of than the others: "compute", "data" or "save"; "wait":
                        // no rank stands out, and messages take most of a step
} rank_times;

rank_times rank_times_new(arena *a, comm *c);
void rank_times_add(rank_times *t, const rank_time *step);
// Gives all ranks the means of all since the last call, 40 bytes of each: every rank calls it.
DRV_CHECKED drv_status rank_times_share(rank_times *t);
// The seconds of its own.
double rank_time_own(const rank_time *t);
// Of n ranks, as above.
int rank_times_slowest(const rank_time *of, int n, const char **reason);
