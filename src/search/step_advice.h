// Advice on the time of a step: changes of one setting that make the run faster on a device.
#pragma once
#include "search/step_cost.h"

typedef struct step_advice {
    const char *keys; // "--set parallel.zero=1"
    double faster;    // tokens/s with the change over those without it
    step_term term;   // that falls most
} step_advice;
enum { MAX_ADVICE = 3 };

// Changes one setting after another, plans each changed run, and writes to `out` those changes that
// make it fastest, the best first; returns their number, up to MAX_ADVICE. `cost`: of the config as
// it is; `bytes`: what its largest rank needs. A changed run fits into the device or needs no more
// than that. A change may concern the size of a batch or the arithmetic, but never the model or its
// rows. Texts live in `a`.
int step_advice_find(arena *a, const run_config *cfg, const device_profile *device,
        const step_cost *cost, int64_t bytes, step_advice *out);
