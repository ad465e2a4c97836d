// The parts of a product that gemm.c and gemm_tree.c share.
#pragma once
#include "backend/cpu/gemm.h"

struct gemm {
    gemm_shape shape;
    gemm_tree tree;
    void (*multiply)(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch);
    const kernels *plain; // what joins and rounds
    int64_t tile_m, tile_n, n_m, n_n;
};

// --- gemm_tree.c
bool tree_is_given(const gemm_tree *tree);
// Scratch of a tile: its sums, and what the kernels need.
int64_t tree_scratch_bytes(const gemm *g, const gemm_shape *tile);
// The tile at a, b, c.
void tree_tile(const gemm *g, const gemm_shape *tile, const char *a, const char *b, char *c,
        char *scratch);
