// Enumerates the layouts of a config on a number of ranks, and estimates time and memory of each.
// drover plan --search plans the best of them.
#pragma once
#include "config/config.h"
#include "plan/pipeline.h"
#include "search/device_profile.h"

typedef struct layout_candidate {
    int64_t tensor, pipeline, context, data, micro_batch, zero;
    int64_t zero_group; // data ranks that share weights, with zero 3; 0: all
    stage_schedule schedule;
    int64_t virtual_stages;
    recompute_mode recompute;
    bool sequence;
    double seconds, bytes; // per step and per rank; first estimated, then planned
    double bubble;
    int64_t planned_bytes; // 0: only estimated
} layout_candidate;

// Returns the number of groups of data ranks that each hold all weights.
static inline int64_t layout_groups(const layout_candidate *c) {
    return c->zero_group ? c->data / c->zero_group : 1;
}

// Degrees of an axis that are not possible for the same reason.
typedef struct layout_refusal {
    const char *axis;
    char why[112];
    str degrees; // "16, 32"
} layout_refusal;
enum { MAX_REFUSALS = 16 };

typedef struct layout_candidates {
    layout_candidate *list; // freed by free(3); grouped by mesh, the fastest first within a mesh
                            // and among meshes
    int n, cap;
    int n_meshes, n_too_large; // n_too_large: variants that were dropped because their estimate
                               // does not fit
    layout_refusal refused[MAX_REFUSALS];
    int n_refused;
} layout_candidates;

// Fills the list. pinned: required sizes of axes, 0: any; NULL: all meshes.
void layout_candidates_find(const run_config *cfg, int64_t ranks, const device_profile *device,
        const mesh *pinned, layout_candidates *out);
void layout_candidates_free(layout_candidates *c);
// Appends the refusals as text, "tensor 16, 32 (expected a divisor of model.num_key_value_heads 8);
// ..."
void layout_refusals_add(const layout_candidates *c, str *out);
bool layout_same_mesh(const layout_candidate *x, const layout_candidate *y);
// Finds the shape of a pipeline's schedule. Not DRV_OK: there is no such schedule.
DRV_CHECKED drv_status layout_shape(const layout_candidate *c, int64_t micro_batches,
        pipeline_shape *out);
// Writes a candidate into a config of `ranks` ranks. DRV_E_USAGE: the batch does not divide.
DRV_CHECKED drv_status layout_candidate_apply(const layout_candidate *c, int64_t ranks,
        run_config *out);
// Returns the name of a layout's schedule, as in parallel.schedule; `otherwise` for SCHEDULE_AUTO.
const char *layout_schedule(const layout_candidate *c, const char *otherwise);
// Returns a key of a config and its value, "parallel.tensor=2". Lives in `a`.
const char *layout_setting(arena *a, const run_config *cfg, const char *key);
// Returns the options that set a layout in a config, "--set parallel.tensor=2 ...". Lives in `a`.
const char *layout_keys(arena *a, const layout_candidate *c);
double layout_tokens_per_s(const run_config *cfg, const layout_candidate *c);
