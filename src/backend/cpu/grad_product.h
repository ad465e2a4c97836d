// A product that is added to the gradient of a weight. It is a sum over tokens, also over those of
// other ranks: for each partial sum of each reduction block of the row, a tree adds the sums of
// runs of tokens (docs/adr/0012, 0015, 0026).
#pragma once
#include "backend/cpu/cpu_op.h"

// Lowers the product of a node with the attributes blocks, ranks, row_blocks and partial_sums,
// which uses up to two entries of out->gemm. `shape` is that of all tokens into one accumulator,
// with `accumulate`.
DRV_CHECKED drv_status grad_product_lower(arena *a, gemm_machine *m, const node *n,
        const gemm_shape *shape, instruction *out);
int64_t grad_product_workspace(const node *n, const gemm_shape *shape, int n_threads);
// Adds a b, both with a row for each token, to out[0].
void grad_product_run(const instruction *ins, const gemm_shape *shape, const void *a,
        const void *b);
