// All layouts of a config on a number of ranks, with an estimate of each: for drover plan --search,
// which plans those that look best.
#pragma once
#include "config/config.h"
#include "search/link_time.h"

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

// The power of a rank, as the search takes it to be.
typedef struct rank_power {
    double flops;  // FLOP/s that products really reach
    double share;  // of the peak
    double memory; // bytes
    link_speeds links;
} rank_power;

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

typedef struct step_flops {
    double per_token[3]; // by recompute_mode, with what is computed again
    double update;       // of all weights (Muon)
} step_flops;
void layout_candidates_find(const run_config *cfg, int64_t ranks, const step_flops *flops,
        const rank_power *power, layout_candidates *out);
// Returns the time of a layout's update: data ranks that share the optimizer share its products,
// tensor ranks do not.
double layout_update_seconds(const run_config *cfg, const step_flops *flops,
        const rank_power *power, const layout_candidate *of);
void layout_candidates_free(layout_candidates *c);
// Adds the refusals as a text, "tensor 16, 32 (expected a divisor of model.num_key_value_heads 8);
// ..."
void layout_refusals_add(const layout_candidates *c, str *out);
// Returns the mesh of a candidate.
mesh layout_mesh(const layout_candidate *c);
bool layout_same_mesh(const layout_candidate *x, const layout_candidate *y);
// Returns how many of data_s seconds of traffic among data ranks in a step of cfg no micro-batch of
// micro_batch_s hides (docs/adr/0027).
double layout_exposed_seconds(const run_config *cfg, double data_s, double micro_batch_s);
// Writes a candidate into a config of `ranks` ranks. DRV_E_USAGE: the batch does not divide.
DRV_CHECKED drv_status layout_candidate_apply(const layout_candidate *c, int64_t ranks,
        run_config *out);
// Returns the name of a layout's schedule, as parallel.schedule has it; otherwise: what to call
// SCHEDULE_AUTO.
const char *layout_schedule(const layout_candidate *c, const char *otherwise);
// Returns the options that make a config of a layout, "--set parallel.tensor=2 ...". Lives in `a`.
const char *layout_keys(arena *a, const layout_candidate *c);
double layout_tokens_per_s(const run_config *cfg, const layout_candidate *c);
