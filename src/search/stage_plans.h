// Plans the ranks of a pipeline: its stages, the rank that needs most memory, the bubble.
#pragma once
#include "programs/programs.h"
#include "search/step_work.h"

typedef struct stage_plans {
    pipeline_shape shape;
    pipeline_result result; // bubble; micro-batches in flight by rank; with `ends`: none
    int *layers;            // by stage
    int64_t *bytes;         // by rank of the pipeline: all bytes that it holds
    int n, worst;           // number of ranks; the rank that holds the most bytes
    double *sent;           // by rank: bytes sent in a step, over all axes
    double wire[N_AXES];    // sent in a step by the rank that sends most over that axis
    step_work work; // of all stages; with `ends`, unplanned stages have the work of a planned one
} stage_plans;

// Plans every rank of the pipeline, one after the other. *cfg becomes that of the rank that holds
// most. `ends`: plans the outlines of only the ranks of which one holds most (with ZB-H1 another
// one may hold a little more); bytes of the others are 0.
DRV_CHECKED drv_status stage_plans_make(arena *a, bool ends, run_config *cfg, stage_plans *out);
