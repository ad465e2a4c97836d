// drover plan --device: how long a step takes on a device that is not here.
#pragma once
#include "base/json.h"
#include "cli/cli.h"
#include "search/run_plan.h"
#include "search/step_advice.h"

#define PLAN_DEVICE_OPTION                                                                         \
    {                                                                                              \
        "--device", "NAME|FILE",                                                                   \
                "the device of a rank, as h100 or a file; fields after commas replace its own"     \
    }

typedef struct device_plan {
    device_profile device;
    step_cost cost;
    double tokens_per_s, mfu; // of all ranks; of the peak of bf16 products
    step_advice advice[MAX_ADVICE];
    int n_advice;
} device_plan;

// Plans the run on what --device names.
DRV_CHECKED drv_status device_plan_make(arena *a, const char *device, const run_plan *planned,
        device_plan *out);
// Finds the changes of one setting that would help most.
void device_plan_advise(arena *a, const run_plan *planned, device_plan *out);
// Prints the terms of a step's time as a table, the advice, and the cost of `steps` steps.
void device_plan_print(const device_plan *d, int ranks, int64_t steps);
// Prints the terms that take more than a twentieth of a percent of the step.
void step_terms_print(const step_cost *cost);
