// Learns the profile of a device from the measured parts of a run's steps.
#pragma once
#include "search/run_plan.h"

// Changes the profile until the plan's terms are those that were measured (seconds of a step; NaN:
// not measured). *learned and *left: the fields that changed, and those of which the run says
// nothing. They live in `a`. DRV_E_USAGE: as run_plan_cost.
DRV_CHECKED drv_status device_profile_learn(arena *a, const run_plan *planned,
        const double measured[N_STEP_TERMS], device_profile *profile, const char **learned,
        const char **left);
