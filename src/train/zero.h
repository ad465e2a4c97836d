// ZeRO (arXiv:1910.02054): what data ranks share (docs/adr/0009, docs/adr/0021).
#pragma once
#include "config/config.h"
#include "passes/passes.h"

// 0, 1 or 2 as parallel.zero says; 0 where one rank has it all.
int zero_level(const run_config *cfg);
// DRV_E_USAGE: what level 2 cannot share.
DRV_CHECKED drv_status zero_check(const run_config *cfg);
// Lanes that this rank adds up itself, which the programs of lanes join.
int64_t zero_lanes_here(const run_config *cfg);
// How ranks share sums of gradients; without ranks: they do not.
gradient_shards zero_shards(const run_config *cfg);
// What travels while programs compute (parallel.overlap, docs/adr/0027): new weights, where ranks
// share the optimizer, and sums of gradients; without ranks: these are for the update.
bool zero_gathers_beside(const run_config *cfg);
gradient_sums zero_sums(const run_config *cfg);
// Micro-batch m of a data rank is number zero_first_micro + m zero_every_micro of the global batch.
int64_t zero_first_micro(const run_config *cfg, int place);
int64_t zero_every_micro(const run_config *cfg);
