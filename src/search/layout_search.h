// Finds the best layouts of a config on a number of ranks: plans candidates in the order of their
// estimates until enough of them fit.
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
    layout_candidate *list; // planned layouts that fit, the fastest first
    int n, n_not;           // n_not: meshes of which no variant fits
} layout_search;

// Runs the search and fills in the results. DRV_E_USAGE: the config cannot be built at all. It is
// no error if no layout fits.
DRV_CHECKED drv_status layout_search_run(layout_search *s);
// Plans one given layout after layout_search_run, and fills in its seconds, bytes and bubble.
// DRV_E_USAGE: it is not possible.
DRV_CHECKED drv_status layout_search_plan(const layout_search *s, layout_candidate *what);
// Returns the MFU of a layout that was found; what is recomputed does not count.
double layout_search_mfu(const layout_search *s, const layout_candidate *c);
void layout_search_free(layout_search *s);
