// Computes from a config how the ranks of a run divide a step: the mesh, each rank's part of a row,
// its accumulation groups and micro-batches, and how data ranks shard gradients and optimizer state
// (ZeRO, arXiv:1910.02054; docs/adr/0009, docs/adr/0021).
#pragma once
#include "config/config.h"
#include "ir/zigzag.h"
#include "model/layout.h"
#include "passes/passes.h"

typedef struct run_layout {
    mesh mesh;
    zigzag zigzag;      // how context ranks divide a row
    int64_t row_tokens; // tokens of a row on one rank
    int partial_sums;   // in a micro-batch (docs/adr/0026)
    // Micro-batches of a step on all data ranks, on one of them, and in an accumulation group.
    int64_t all_micro_batches, micro_batches, in_accum_group;
    int64_t accum_groups_here; // accumulation groups of this rank, whose sums separate programs
                               // add; 1 from ZeRO-2 on
    int zero;                  // parallel.zero, 0 to 3; 0 on one rank
    gradient_shards shards;    // how ranks shard sums of gradients; none on a single rank
    weight_shards weights;     // how ranks shard weights; none on a single rank
    // gathers_async: weights are gathered while programs compute (parallel.overlap, docs/adr/0027),
    // if the optimizer is sharded. sums: how gradients are summed over ranks; without ranks only
    // the update sums them.
    bool gathers_async;
    gradient_sums sums;
    // Micro-batch m of this data rank is micro-batch first_micro + m every_micro of the global
    // batch.
    int64_t first_micro, every_micro;
} run_layout;

// Resolves the layout of a config whose ranks are set (config_set_ranks).
run_layout run_layout_of(const run_config *cfg);
// Checks the layout. DRV_E_USAGE: ZeRO-2 does not support it.
DRV_CHECKED drv_status run_layout_check(const run_config *cfg);
// Fills the layout of the model on this rank, with reduction blocks by parallel.tensor_blocks. It
// has all layers, even if a pipeline divides them. DRV_E_USAGE names the sizes that do not divide.
DRV_CHECKED drv_status run_layout_model(const run_config *cfg, model_layout *out);
// Returns only the mesh, also for a config without training, whose sizes may be 0.
mesh run_mesh(const run_config *cfg);
