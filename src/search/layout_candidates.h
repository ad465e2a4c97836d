// All layouts of a config on a number of ranks, with an estimate of each: for drover plan --search,
// which plans those that look best.
#pragma once
#include "config/config.h"
#include "search/device_profile.h"

typedef struct layout_candidate {
    int64_t tensor, pipeline, context, data, micro_batch, zero;
    stage_schedule schedule;
    int64_t virtual_stages;
    recompute_mode recompute;
    bool sequence;
    double seconds, bytes; // of a step, of a rank; first estimated, then planned
    double bubble;
    int64_t planned_bytes; // 0: estimated only
} layout_candidate;

// Degrees of an axis that are not possible, for one reason.
typedef struct layout_refusal {
    const char *axis;
    char why[112];
    str degrees; // "16, 32"
} layout_refusal;
enum { MAX_REFUSALS = 16 };

typedef struct layout_candidates {
    layout_candidate *list; // free(3); of one mesh next to each other, the fastest first; the mesh
                            // with the fastest first
    int n, cap;
    int n_meshes, n_too_large; // meshes; variants that are estimated not to fit, and are left out
    layout_refusal refused[MAX_REFUSALS];
    int n_refused;
} layout_candidates;

// pinned: only meshes with those sizes along the axes that are not 0; NULL: all.
void layout_candidates_find(const run_config *cfg, int64_t ranks, const device_profile *device,
        const mesh *pinned, layout_candidates *out);
void layout_candidates_free(layout_candidates *c);
// Adds the refusals as a text, "tensor 16, 32 (expected a divisor of model.num_key_value_heads 8);
// ..."
void layout_refusals_add(const layout_candidates *c, str *out);
// Returns the mesh of a candidate.
mesh layout_mesh(const layout_candidate *c);
bool layout_same_mesh(const layout_candidate *x, const layout_candidate *y);
// Writes a candidate into a config of `ranks` ranks. DRV_E_USAGE: the batch does not divide.
DRV_CHECKED drv_status layout_candidate_apply(const layout_candidate *c, int64_t ranks,
        run_config *out);
