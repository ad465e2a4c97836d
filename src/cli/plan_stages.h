// What drover plan says of a pipeline: its stages, which of them needs most, its bubble.
#pragma once
#include "base/json.h"
#include "train/programs.h"

typedef struct plan_stages {
    pipeline_schedule schedule;
    pipeline_result result; // bubble; micro-batches in flight by rank
    int *layers;            // by stage
    int64_t *bytes;         // by rank of the pipeline: all that it holds
    int n, worst;           // ranks; that which holds most
    double *sent;           // bytes of a step by all axes, of each
    double wire[N_AXES];    // sent in a step by the rank that sends most over that axis
} plan_stages;

// Plans every rank of the pipeline, one after the other. *cfg becomes that of the worst one.
// `ends`: only the first and the last two ranks, one of which holds most; bytes of the others are 0.
DRV_CHECKED drv_status plan_stages_make(arena *a, bool ends, run_config *cfg, plan_stages *out);
void plan_stages_print(const plan_stages *s);
json_t *plan_stages_json(const plan_stages *s);
