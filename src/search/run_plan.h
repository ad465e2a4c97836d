// The plan of a run before it starts: the memory, FLOPs, traffic and time of its steps. drover plan
// prints it, drover report compares it with measurements.
#pragma once
#include "base/memory_limit.h"
#include "search/step_cost.h"

typedef struct run_plan {
    const run_config *cfg; // of the rank that holds most
    programs programs;     // of that rank
    memory_plan memory;
    int64_t process; // bytes that its process holds in addition
    mesh mesh;
    int n_ranks;
    bool is_pipeline;
    stage_plans stages;     // only with a pipeline
    double wire[N_AXES];    // bytes that a rank sends in a step, by axis
    double between_groups;  // of these, bytes that the update sends to other groups of data ranks
    double sent;            // the largest number of bytes that a rank sends in a step
    double flops_per_token; // of the model
    double recomputed_per_token; // FLOPs that recomputation adds to them
} run_plan;

// Plans the rank of a run that holds most, without allocating a weight. *cfg becomes that of this
// rank and must outlive the plan, which lives in `a`.
DRV_CHECKED drv_status run_plan_make(arena *a, run_config *cfg, run_plan *out);
// Returns the FLOPs of a step on all ranks, without recomputation.
double run_plan_step_flops(const run_plan *planned);
// Returns the FLOPs of the reference's log-probabilities of n_rows rows, which are computed once
// before the first step.
double run_plan_reference_flops(const run_plan *planned, int64_t n_rows);
// Returns the bytes that a rank needs, its process included.
int64_t run_plan_needs(const run_plan *planned);

// Computes the time of a step on a device, by terms. DRV_E_USAGE as in step_cost_make.
DRV_CHECKED drv_status run_plan_cost(arena *a, const run_plan *planned,
        const device_profile *device, step_cost *out);

typedef struct run_plan_times {
    double step_s, run_s;
    bool is_measured;      // by running micro-batches; false: from the profile of this machine
    device_profile device; // that profile
    step_cost cost;        // computed from it
} run_plan_times;

// Predicts the time of a step on this machine: from its profile, or, if one rank has the whole
// model and a micro-batch is short, by running some micro-batches (step_rehearse).
DRV_CHECKED drv_status run_plan_time(arena *a, const run_plan *planned, const memory_limit *limit,
        run_plan_times *out);
