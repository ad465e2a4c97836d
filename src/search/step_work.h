// The work of a whole step: that of each pipeline stage for one micro-batch, and that of the
// update.
#pragma once
#include "programs/programs.h"
#include "search/work.h"

typedef struct step_work {
    int n_stages;             // of the whole pipeline; 1 without one
    work *forward, *backward; // by stage, of a micro-batch
    work update;              // of the rank whose update accesses most memory
    double boundary_bytes;    // that a stage sends to the next one; 0 without a pipeline
} step_work;

// Allocates the stages of a run in `a`.
step_work step_work_new(arena *a, const run_config *cfg);
// Adds the work of the programs of one rank of the pipeline, cfg->rank.
void step_work_take(const programs *p, step_work *to);
