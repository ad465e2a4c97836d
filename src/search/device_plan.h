// Predicts the time of a run on a device that need not be present, and changes that reduce it.
#pragma once
#include "search/run_plan.h"
#include "search/step_advice.h"

typedef struct device_plan {
    device_profile device;
    step_cost cost;
    double tokens_per_s, mfu; // of all ranks; of the peak of bf16 products
    step_advice advice[MAX_ADVICE];
    int n_advice;
} device_plan;

// Computes the time of a planned run on a device (device_profile_read), without advice.
DRV_CHECKED drv_status device_plan_make(arena *a, const char *device, const run_plan *planned,
        device_plan *out);
// Finds the changes of a single setting that would save most time.
void device_plan_advise(arena *a, const run_plan *planned, device_plan *out);
