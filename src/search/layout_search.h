// The best layouts of a config on a number of ranks: candidates in the order of their estimates,
// really planned until enough of them fit.
#pragma once
#include "search/layout_candidates.h"

typedef struct layout_search {
    const run_config *cfg;
    int64_t ranks, top;    // top: layouts that are wanted
    mesh pinned;           // sizes of axes that are decided; 0: not
    device_profile device; // of a rank
    bool on_host;          // the process takes the device's memory too
    // The results; layout_search_free gives them back.
    double flops_per_token; // of the model, without what is computed again
    layout_candidates all;
    layout_candidate *list; // that fit, planned, the fastest first
    int n, n_not;           // of the list; meshes of which no variant fits
} layout_search;

// Fills in what is found for what is asked above. DRV_E_USAGE: the config cannot be built at all;
// that no layout fits is no error.
DRV_CHECKED drv_status layout_search_run(layout_search *s);
// Plans a layout of one's own after layout_search_run: fills in seconds, bytes and bubble.
// DRV_E_USAGE: it is not possible.
DRV_CHECKED drv_status layout_search_plan(const layout_search *s, layout_candidate *what);
void layout_search_free(layout_search *s);
