// Finds layouts for a job that has lost nodes: the fastest that fits, preferring layouts that
// compute the same bits as the whole job. For drover launch node, plan --elastic and compile
// --elastic.
#pragma once
#include "search/layout_search.h"

typedef struct elastic_job {
    const run_config *cfg; // for any number of ranks
    int n_nodes, ranks;    // nodes of the whole job; ranks of each node
    device_profile device; // of a rank
    bool on_host;          // layout_search.h
} elastic_job;

typedef struct elastic_layout {
    int n_nodes;
    layout_candidate layout;
    double tokens_per_s,
            perfect; // perfect: without waiting for other ranks; 0 for the job's own layout
    bool same_bits;
    const char *const *sets; // [n_sets], "KEY=VALUE", the keys of this layout; none: the job's own
    int n_sets;
    const char *words; // "data 2 x tensor 2, the same bits"
} elastic_layout;

// Makes the profile of a rank of this machine, which has its share of the free memory.
DRV_CHECKED drv_status elastic_device(const run_config *cfg, int ranks, device_profile *out);
// Returns the job's own layout if n_nodes is the whole job, else the fastest on exactly n_nodes,
// with other bits only if no layout has the same. DRV_E_USAGE: there is none; the message has the
// reasons. Texts live in `a`.
DRV_CHECKED drv_status elastic_on(arena *a, const elastic_job *job, int n_nodes,
        elastic_layout *out);
// Finds the best layout on min_nodes to n_nodes: one with the same bits if the config gives
// parallel.accumulation_groups and such a layout exists, else the fastest. The search stops ten
// seconds after it has found one. DRV_E_USAGE: there is none.
DRV_CHECKED drv_status elastic_choose(arena *a, const elastic_job *job, int n_nodes, int min_nodes,
        elastic_layout *out);
