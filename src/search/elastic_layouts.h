// Layouts of a job that has fewer nodes than it was made for: the fastest that fits, where one
// keeps the bits of the whole job; for drover launch node, plan --elastic and compile --elastic.
#pragma once
#include "search/layout_search.h"

typedef struct elastic_job {
    const run_config *cfg; // for any number of ranks
    int n_nodes, ranks;    // of the whole job; of each node
    device_profile device; // of a rank
    bool on_host;          // layout_search.h
} elastic_job;

typedef struct elastic_layout {
    int n_nodes;
    layout_candidate layout;
    double tokens_per_s, perfect; // perfect: if no rank ever waited; 0: the job's own layout
    bool same_bits;
    const char *const *sets; // [n_sets], "KEY=VALUE", what makes a config of it; none: the job's own
    int n_sets;
    const char *words; // "data 2 x tensor 2, the same bits"
} elastic_layout;

// Makes the profile of a rank of this machine: the peak of products, its share of the free memory.
DRV_CHECKED drv_status elastic_device(arena *a, int ranks, device_profile *out);
// Takes the job's own layout on all its nodes, else the fastest on exactly n_nodes; with other bits
// only where none has the same. DRV_E_USAGE: there is none, with the reasons. Texts live in `a`.
DRV_CHECKED drv_status elastic_on(arena *a, const elastic_job *job, int n_nodes,
        elastic_layout *out);
// Finds the best on at most n_nodes and at least min_nodes: with the same bits where the config
// gives parallel.accumulation_groups and a layout has them, else the fastest. Looks for no better
// one when it has one and ten seconds have passed. DRV_E_USAGE: there is none.
DRV_CHECKED drv_status elastic_choose(arena *a, const elastic_job *job, int n_nodes, int min_nodes,
        elastic_layout *out);
