// Times training steps on random tokens, for drover bench step and for the prediction of drover plan.
#pragma once
#include "base/memory_limit.h"
#include "comm/comm.h"
#include "search/step_profile.h"

typedef struct step_times {
    double best, mean; // seconds per step, by the clock of this rank
} step_times;

// Runs one step untimed, which touches all memory, then `repeats` timed ones, on all ranks
// together, as a run does. The programs must be loaded and their weights set. profile: set to that
// of the best step, on a back end that times nodes; NULL: not wanted.
DRV_CHECKED drv_status step_time(arena *a, programs *p, comm *ranks, int64_t repeats,
        step_times *out, step_profile *profile);

// Times the nodes of a step of one micro-batch on a back end that times nodes; cfg is of one rank.
DRV_CHECKED drv_status step_sample(arena *a, const run_config *cfg, backend *device,
        step_profile *out);

// Measures a step of one rank from a micro-batch and an update, if that is quick: a micro-batch
// takes less than a second, judged by `by_peak_s`, the seconds of a step at the peak of products,
// and the run needs at most 1 GiB and at most half of the free memory. Otherwise *step_s is
// unchanged.
DRV_CHECKED drv_status step_rehearse(arena *a, const run_config *cfg, const memory_limit *limit,
        double by_peak_s, double *step_s, bool *measured);
