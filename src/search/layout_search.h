// Finds the best layouts of a config on a number of ranks: plans candidates in the order of their
// estimates until enough of them fit.
#pragma once
#include "search/layout_candidates.h"

typedef struct layout_search {
    const run_config *cfg;
    int64_t ranks, top;    // top: number of layouts to find
    mesh pinned;           // required sizes of axes; 0: any
    device_profile device; // of a rank
    bool on_host;          // the device's memory is the host's, which the process uses too
    // The results, which layout_search_free frees.
    double flops_per_token; // of the model, without recomputation
    layout_candidates all;
    layout_candidate *list; // planned layouts that fit, the fastest first
    int n, n_not;           // n_not: meshes without a variant that fits
} layout_search;

// Runs the search. DRV_E_USAGE: the config is not possible in any layout. It is not an error if no
// layout fits in memory.
DRV_CHECKED drv_status layout_search_run(layout_search *s);
// Plans one given layout after layout_search_run, and fills in its seconds, bytes and bubble.
// DRV_E_USAGE: the layout is not possible.
DRV_CHECKED drv_status layout_search_plan(const layout_search *s, layout_candidate *what);
// Returns the MFU of a planned layout, without FLOPs of recomputation.
double layout_search_mfu(const layout_search *s, const layout_candidate *c);
void layout_search_free(layout_search *s);
