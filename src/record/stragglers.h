// Finds ranks that delay the others: their own time, without waiting for messages, is longer than
// that of the other ranks of the same pipeline stage in 15 of the last 20 steps. A single step does
// not show this: on a shared machine every rank is late now and then, but a different one each
// time.
//
// Ignored are the first steps, in which memory is first touched and caches fill; ranks that are
// alone in their stage, which nothing can be compared with; and differences too short to hold
// anyone up.
#pragma once
#include "base/arena.h"
#include "record/rank_times.h"

typedef struct straggler {
    int rank;           // with whole_host: the slowest rank of the host
    bool whole_host;    // all ranks of its host, at least two, are slow
    bool over;          // it is no longer slow
    const char *reason; // what it spends more time on: "compute", "data" or "save"
    double ratio;       // its own time relative to that of the others
    int64_t step;       // the first slow step; over: the step in which it was no longer slow
} straggler;

typedef struct stragglers stragglers; // single owner

// Makes the detector. stages, hosts [n_ranks]: the pipeline stage of each rank, and a number of its
// host, from 0 on; both must outlive it. ratio: above it, more than 1, a step counts as slow.
stragglers *stragglers_new(arena *a, int n_ranks, const int *stages, const int *hosts,
        double ratio);
// Adds one step of all ranks, of[n_ranks]; steps come in order.
void stragglers_add(stragglers *self, int64_t step, const rank_time *of);
// Takes the next change since the last call; false: there is none left.
bool stragglers_next(stragglers *self, straggler *out);
