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

// The place of a stage in the model, which determines whether it has embedding or head.
typedef enum stage_place {
    STAGE_FIRST,
    STAGE_MIDDLE,
    STAGE_LAST,
    STAGE_ALONE, // the only one
    N_STAGE_PLACES
} stage_place;
enum { N_PIPELINE_PLACES = STAGE_ALONE }; // the places that occur in a pipeline

static inline stage_place stage_place_of(int stage, int n_stages) {
    if (n_stages == 1) return STAGE_ALONE;
    return stage == 0 ? STAGE_FIRST : stage + 1 == n_stages ? STAGE_LAST : STAGE_MIDDLE;
}

// Allocates the stages of a run in `a`.
step_work step_work_new(arena *a, const run_config *cfg);
// Adds the work of the programs of one rank of the pipeline, cfg->rank.
void step_work_take(const programs *p, step_work *to);
