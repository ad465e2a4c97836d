// A product that is added to the gradient of a weight: a sum over tokens, in runs that a tree
// joins, and of ranks that have other tokens (docs/adr/0012).
#pragma once
#include "backend/cpu/cpu_op.h"

// The tree of near-equal runs of n_tokens. leaves below 2: none.
gemm_tree grad_tree(int leaves, int64_t n_tokens);

// The product of a node with `attrs.leaves` and `attrs.ranks`. shape: with `accumulate` and the
// whole height and width of the gradient.
DRV_CHECKED drv_status grad_product_new(arena *a, gemm_machine *m, const node *n,
        const gemm_shape *shape, gemm **out);
int64_t grad_product_workspace(const node *n, const gemm_shape *shape, int n_threads);
// Adds a b to out[0] by gemm[0]. Ranks join theirs first.
void grad_product_run(const instruction *ins, const gemm_shape *shape, const void *a,
        const void *b);
