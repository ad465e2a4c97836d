// The parts of a product that gemm.c and gemm_tree.c share.
#pragma once
#include "backend/cpu/gemm.h"
#include "backend/cpu/onednn.h"

// Runs of a leaf, and the run of a last leaf that is shorter.
enum { RUN_LENGTHS = MAX_RUNS + 1 };

typedef struct tile_products {           // by oneDNN, of one shape of tile
    onednn_product *whole;               // without a tree
    onednn_product *run[RUN_LENGTHS][2]; // [1] adds to what is there
} tile_products;

struct gemm {
    gemm_shape shape;
    gemm_tree tree;
    const kernels *kernels; // NULL: oneDNN
    const kernels *plain;   // what joins and rounds
    int64_t tile_m, tile_n, n_m, n_n;
    tile_products product[2][2]; // full or rest in m, in n
};

// Moves operand b, as it is stored, by so many rows and columns: returns where it begins then.
static inline const char *move_b(gemm_shape *s, const char *b, int64_t rows, int64_t columns) {
    if (!s->blocks) return b + dtype_bytes(s->in) * (rows * s->ldb + columns);
    s->b_row += rows;
    s->b_column += columns;
    return b;
}

// --- gemm_tree.c
bool tree_is_given(const gemm_tree *tree);
// Elements of k of a run (RUN_LENGTHS kinds; 0: there is none).
int64_t tree_run_length(const gemm_tree *tree, int kind);
// A run's product in a tile of sums, as large as the tile.
gemm_shape tree_run_shape(const gemm_tree *tree, const gemm_shape *tile, int kind, bool adds);
// Scratch of a tile: its sums, and what the kernels need.
int64_t tree_scratch_bytes(const gemm *g, const gemm_shape *tile);
// The tile at a, b, c.
void tree_tile(const gemm *g, const gemm_shape *tile, const tile_products *products, int thread,
        const char *a, const char *b, char *c, char *scratch);
