// The plan of a run before it starts: the memory, the arithmetic, the traffic and the time of its
// steps. drover plan prints it, drover report compares it with what was measured.
#pragma once
#include "base/memory_limit.h"
#include "search/step_cost.h"

typedef struct run_plan {
    const run_config *cfg; // of the rank that holds most
    programs programs;     // of that rank
    memory_plan memory;
    int64_t process; // bytes that its process holds besides
    mesh mesh;
    int n_ranks;
    bool is_pipeline;
    stage_plans stages;          // only of a pipeline
    double wire[N_AXES];         // bytes that a rank sends in a step, by axis
    double between_groups;       // bytes of it that the update sends to other groups of data ranks
    double sent;                 // bytes that the rank that sends most sends in a step
    double flops_per_token;      // of the model
    double recomputed_per_token; // FLOP that recomputation adds to them
} run_plan;

// Plans the rank of a run that holds most, without allocating a weight. *cfg becomes that of this
// rank and must outlive the plan, which lives in `a`.
DRV_CHECKED drv_status run_plan_make(arena *a, run_config *cfg, run_plan *out);
// Returns the FLOP of a step of all ranks, without what is recomputed.
double run_plan_step_flops(const run_plan *planned);
// Returns the FLOP of the reference's log-probabilities of so many rows, once before the first step.
double run_plan_reference_flops(const run_plan *planned, int64_t n_rows);
// Returns the bytes that a rank needs, its process included.
int64_t run_plan_needs(const run_plan *planned);

// Makes the time of a step on a device, by terms. DRV_E_USAGE: as step_cost_make.
DRV_CHECKED drv_status run_plan_cost(arena *a, const run_plan *planned,
        const device_profile *device, step_cost *out);

typedef struct run_plan_times {
    double step_s, run_s;
    bool is_measured;      // by running micro-batches; false: from the profile of this machine
    device_profile device; // that profile
    step_cost cost;        // by it
} run_plan_times;

// Predicts how long a step takes on this machine: from its profile, or, where one rank has the
// whole model and a micro-batch is short, by running some (step_rehearse).
DRV_CHECKED drv_status run_plan_time(arena *a, const run_plan *planned, const memory_limit *limit,
        run_plan_times *out);
