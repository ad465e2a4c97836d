// What data ranks share of a step: the optimizer, the sums of gradients, and which micro-batches
// each takes for that.
#include "train/zero.h"

#include <string.h>

#include "train/programs.h"

int zero_level(const run_config *cfg) {
    return cfg->data_ranks * cfg->context_parallel > 1 ? (int)cfg->zero : 0;
}

int64_t zero_lanes_here(const run_config *cfg) {
    return zero_level(cfg) == 2 ? 1 : cfg->n_lanes / cfg->data_ranks;
}

gradient_shards zero_shards(const run_config *cfg) {
    const int64_t micro_batches = cfg->global_batch_size / cfg->micro_batch_size;
    if (zero_level(cfg) < 2) return (gradient_shards){0};
    return (gradient_shards){.ranks = (int)(cfg->data_ranks * cfg->context_parallel),
            .data_ranks = (int)cfg->data_ranks,
            .lanes = programs_cut(cfg).lanes,
            .micro_batches = micro_batches,
            .in_lane = micro_batches / cfg->n_lanes};
}

static bool overlaps(const run_config *cfg) {
    return cfg->overlap && cfg->data_ranks * cfg->context_parallel > 1 &&
           config_backend(cfg)->sends_beside;
}

bool zero_gathers_beside(const run_config *cfg) {
    return overlaps(cfg) && zero_level(cfg) > 0;
}

// A sum that lanes or leaves of the row are joined to later is not complete by then.
gradient_sums zero_sums(const run_config *cfg) {
    if (!overlaps(cfg) || zero_level(cfg) == 2 || zero_lanes_here(cfg) > 1 ||
            programs_cut(cfg).lanes > 1)
        return (gradient_sums){0};
    return (gradient_sums){.ranks = (int)(cfg->data_ranks * cfg->context_parallel),
            .data_ranks = (int)cfg->data_ranks,
            .micro_batches =
                    (int)(cfg->global_batch_size / cfg->micro_batch_size / cfg->data_ranks),
            .whole = zero_level(cfg) == 0};
}

int64_t zero_every_micro(const run_config *cfg) {
    return zero_level(cfg) == 2 ? cfg->data_ranks : 1;
}

int64_t zero_first_micro(const run_config *cfg, int place) {
    const int64_t share = cfg->global_batch_size / cfg->micro_batch_size / cfg->data_ranks;
    return zero_level(cfg) == 2 ? place : place * share;
}

// What cannot be shared (docs/adr/0021).
drv_status zero_check(const run_config *cfg) {
    if (zero_level(cfg) < 2) return DRV_OK;
    if (!config_backend(cfg)->orders_sums)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"parallel.zero\" is 2, which backend %s does not have, since its "
                "collectives add in an order of their own; expected 0 or 1",
                config_where(cfg, "parallel.zero"), cfg->backend);
    if (cfg->grad_dtype == PRECISION_BF16)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"parallel.zero\" is 2, which keeps sums of gradients in fp32, but "
                "training.grad_dtype is bf16; expected zero 0 or 1, or grad_dtype fp32",
                config_where(cfg, "parallel.zero"));
    return DRV_OK;
}
