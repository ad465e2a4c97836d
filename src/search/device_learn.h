// Learns the profile of a device from the measured parts of a run's steps.
#pragma once
#include "search/run_plan.h"

// Changes the profile until the plan's terms equal the measured ones (seconds of a step; NaN: not
// measured). *learned and *left list, in `a`, the fields that changed and those that the run cannot
// determine. DRV_E_USAGE: as run_plan_cost.
DRV_CHECKED drv_status device_profile_learn(arena *a, const run_plan *planned,
        const double measured[N_STEP_TERMS], device_profile *profile, const char **learned,
        const char **left);
