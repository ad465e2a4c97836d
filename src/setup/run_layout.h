// Says how the ranks of a run share a step, as its config says: the mesh, what each rank has of a
// row, the accumulation groups that it adds up, which micro-batches it takes, and what data ranks
// share of the gradients and of the optimizer (ZeRO, arXiv:1910.02054; docs/adr/0009, docs/adr/0021).
#pragma once
#include "config/config.h"
#include "ir/zigzag.h"
#include "model/layout.h"
#include "passes/passes.h"

typedef struct run_layout {
    mesh mesh;
    zigzag zigzag;      // how context ranks share a row
    int64_t row_tokens; // of a row, on one rank
    int partial_sums;   // of a micro-batch (docs/adr/0026)
    // Micro-batches of a step: of all data ranks together, of one of them, and of an accumulation
    // group.
    int64_t all_micro_batches, micro_batches, in_accum_group;
    int64_t accum_groups_here; // that a rank adds up itself, which the programs of accumulation
                               // groups join
    int zero;                  // 0 to 3 as parallel.zero says; 0 where one rank has it all
    gradient_shards shards;    // how ranks share sums of gradients; without ranks: they do not
    weight_shards weights;     // how they share weights; likewise
    // New weights travel while programs compute (parallel.overlap, docs/adr/0027), where ranks
    // share the optimizer; `sums` tells how sums of gradients do, which without ranks are left to
    // the update.
    bool gathers_async;
    gradient_sums sums;
    // Micro-batch m of this data rank is number first_micro + m every_micro of the global batch.
    int64_t first_micro, every_micro;
} run_layout;

// Resolves the layout of a config whose ranks are set (config_set_ranks).
run_layout run_layout_of(const run_config *cfg);
// Checks the layout. DRV_E_USAGE: what ZeRO-2 cannot share.
DRV_CHECKED drv_status run_layout_check(const run_config *cfg);
// Fills the layout of the model on this rank, its reduction blocks as parallel.tensor_blocks says;
// a pipeline's layers are not cut. DRV_E_USAGE names what does not divide.
DRV_CHECKED drv_status run_layout_model(const run_config *cfg, model_layout *out);
// Returns the mesh alone, also of a config that does not train: its sizes may be 0.
mesh run_mesh(const run_config *cfg);
