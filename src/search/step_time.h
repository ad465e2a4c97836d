// Training steps on random tokens, timed: for drover bench step, and for the time that drover plan
// foretells.
#pragma once
#include "base/memory_limit.h"
#include "comm/comm.h"
#include "search/step_profile.h"

typedef struct step_times {
    double best, mean; // seconds per step, by the clock of this rank
} step_times;

// Runs one step untimed, which touches all memory, then `repeats` of them, on all ranks of `c`
// together, as a run does. The programs are loaded and their weights are set. profile: of the best
// one, on a back end that times nodes; NULL: not wanted.
DRV_CHECKED drv_status step_time(arena *a, programs *p, comm *ranks, int64_t repeats,
        step_times *out, step_profile *profile);

// Measures the seconds of a step of one rank on parts of it, where that is soon done: a micro-batch
// takes under a second by `by_peak_s`, the seconds that a step takes by the peak of products, and
// the run needs at most 1 GiB and half of what is free. Otherwise *step_s stays as it is.
DRV_CHECKED drv_status step_rehearse(arena *a, const run_config *cfg, const memory_limit *limit,
        double by_peak_s, double *step_s, bool *measured);
