// The table of the kernels that use tile registers, as compiled by the including file.
#pragma once
#include "kernels/levels/attention_sum.h"
#include "kernels/levels/attention_tiles_backward.h"
#include "kernels/levels/attention_tiles_forward.h"

static void attention_sum_by_tiles(const attention_args *args, int64_t unit) {
    attention_sum(DT_BF16, args, unit);
}

#define LEVEL_TILES(table, its_name, its_spin)                                                     \
    extern const tile_kernels table;                                                               \
    const tile_kernels table = {                                                                   \
            .name = its_name,                                                                      \
            .gemm = gemm_by_tiles,                                                                 \
            .attention = attention_by_tiles,                                                       \
            .attention_grad = attention_grad_by_tiles,                                             \
            .attention_grad_sum = attention_sum_by_tiles,                                          \
            .spin = its_spin,                                                                      \
    }
