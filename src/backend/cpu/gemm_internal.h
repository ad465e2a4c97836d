// The parts of a product that gemm.c and gemm_tree.c share.
#pragma once
#include "backend/cpu/gemm.h"

struct gemm {
    gemm_shape shape;
    gemm_tree tree;
    void (*multiply)(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch);
    const kernels *plain; // those that add reduction blocks and round
    int64_t tile_m, tile_n, n_m, n_n;
};

// Returns where operand b begins if it is moved by so many rows and columns of its storage; for
// quantised blocks, records the move in the shape.
static inline const char *move_b(gemm_shape *s, const char *b, int64_t rows, int64_t columns) {
    if (!s->blocks) return b + dtype_bytes(s->in) * (rows * s->ldb + columns);
    s->b_row += rows;
    s->b_column += columns;
    return b;
}

// --- gemm_tree.c
bool tree_is_given(const gemm_tree *tree);
// Scratch of a tile: its sums, and what the kernels need.
int64_t tree_scratch_bytes(const gemm *g, const gemm_shape *tile);
// Computes the tile at a, b, c.
void tree_tile(const gemm *g, const gemm_shape *tile, const char *a, const char *b, char *c,
        char *scratch);
