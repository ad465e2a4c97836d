// Plans one layout: the memory of the rank that holds most, and the time of a step on a device.
#pragma once
#include "search/step_cost.h"

typedef struct timed_plan {
    int64_t bytes; // of the rank that holds most, without its process
    step_cost cost;
} timed_plan;

// Plans the layout of a config; in a pipeline only the ranks at its ends. *cfg becomes that of the
// rank that holds most. DRV_E_USAGE: the layout is not possible, or the device has no products of
// the config's precision.
DRV_CHECKED drv_status timed_plan_make(arena *a, run_config *cfg, const device_profile *device,
        timed_plan *out);
