// The plans of a pipeline's ranks: its stages, which rank needs most, the bubble.
#pragma once
#include "programs/programs.h"
#include "search/step_work.h"

typedef struct stage_plans {
    pipeline_schedule schedule;
    pipeline_result result; // bubble; micro-batches in flight by rank
    int *layers;            // by stage
    int64_t *bytes;         // by rank of the pipeline: all that it holds
    int n, worst;           // ranks; that which holds most
    double *sent;           // bytes of a step by all axes, of each
    double wire[N_AXES];    // sent in a step by the rank that sends most over that axis
    step_work work;         // of all stages; `ends`: of those that were planned, and alike between
} stage_plans;

// Plans every rank of the pipeline, one after the other. *cfg becomes that of the worst one.
// `ends`: only the first two and the last two ranks, one of which holds most; bytes of the others
// are 0.
DRV_CHECKED drv_status stage_plans_make(arena *a, bool ends, run_config *cfg, stage_plans *out);
