// Finds ranks that hold the others up: those whose own time, without waiting for messages, is
// longer than that of the other ranks which do the same part (the same pipeline stage), in 15 of
// the last 20 steps. Single steps say little: on a machine that is shared every rank is late now
// and then, but another one each time.
//
// Left out: the first steps, in which memory is touched and caches fill; ranks that are alone in
// their stage, which nothing can be compared with; and what is too short to hold anyone up.
#pragma once
#include "base/arena.h"
#include "record/rank_times.h"

typedef struct straggler {
    int rank;           // of a whole host: the slowest of it
    bool whole_host;    // all its ranks are slow, of at least two
    bool over;          // it is not slow any more
    const char *reason; // what it has more of than the others: "compute", "data" or "save"
    double ratio;       // its own time over that of the others
    int64_t step;       // it is slow since; over: the step at which it was seen not to be
} straggler;

typedef struct stragglers stragglers; // single owner

// Two values of each rank: the stage, and a number that ranks of one host share, from 0 on. Both
// are kept, not copied. ratio: how much longer is slow, above 1.
stragglers *stragglers_new(arena *a, int n_ranks, const int *stages, const int *hosts,
        double ratio);
// Adds one step of all ranks, of[n_ranks]; steps come in order.
void stragglers_add(stragglers *self, int64_t step, const rank_time *of);
// Takes the next change since the last look; false: there is none left.
bool stragglers_next(stragglers *self, straggler *out);
