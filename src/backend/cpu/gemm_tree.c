// Sums over the inner dimension in reduction blocks that a tree joins, tile by tile, so that the
// sums of a tile stay in the cache (docs/adr/0012).
//
// Scratch of a tile: sums, as many tiles as are open in the tree | scratch of the kernels.
#include <string.h>

#include "backend/cpu/gemm_internal.h"
#include "base/round.h"

typedef struct tile_sum {
    const gemm *g;
    gemm_shape tile;
    const char *a, *b;
    int64_t sums_bytes; // of one tile
    char *scratch;
} tile_sum;

bool tree_is_given(const gemm_tree *tree) {
    return tree->n_blocks > 1 || tree->n_segments > 1;
}

// Kinds of segments: those of a reduction block, and that of a shorter last reduction block.
enum { SEGMENT_LENGTHS = MAX_SEGMENTS + 1 };

// Returns the length in k of a segment of a kind; 0: there is none.
static int64_t run_length(const gemm_tree *tree, int kind) {
    return kind == MAX_SEGMENTS ? tree->last : kind < tree->n_segments ? tree->each[kind] : 0;
}

// Multiplies one segment into a tile of sums.
static gemm_shape run_shape(const gemm_tree *tree, const gemm_shape *tile, int kind, bool adds) {
    gemm_shape s = *tile;
    s.k = run_length(tree, kind);
    s.ldc = tile->n;
    s.out = dtype_acc(tile->in);
    s.accumulate = adds;
    return s;
}

// Returns whether the kernel can add a reduction block to its left neighbour when it ends: it must
// sum the block from 0 first, as one block of the inner dimension.
static bool blocks_join_themselves(const gemm *g) {
    const gemm_tree *tree = &g->tree;
    return g->plain != &kernels_ref && tree->n_segments == 1 && tree->each[0] <= GEMM_WORDS &&
           tree->last <= GEMM_WORDS;
}

static int64_t sums_bytes(const gemm_shape *tile) {
    return round_up(tile->m * tile->n * dtype_bytes(dtype_acc(tile->in)), 64);
}

// Returns the number of open sums: the right half is computed while the left half waits.
static int open_sums(const gemm *g) {
    int levels = 0;
    while (1 << levels < g->tree.n_blocks)
        levels++;
    return levels > 0 && blocks_join_themselves(g) ? levels : levels + 1;
}

int64_t tree_scratch_bytes(const gemm *g, const gemm_shape *tile) {
    int64_t most = 0;
    const bool adds = g->tree.n_segments > 1; // the second segment of a block is added to the first
    for (int kind = 0; kind < SEGMENT_LENGTHS; kind++) {
        const gemm_shape s = run_shape(&g->tree, tile, kind, adds);
        if (gemm_scratch_bytes(&s) > most) most = gemm_scratch_bytes(&s);
    }
    return open_sums(g) * sums_bytes(tile) + most;
}

static void add_segment(const tile_sum *t, int kind, int64_t first, bool adds, char *sums) {
    const gemm *g = t->g;
    gemm_shape s = run_shape(&g->tree, &t->tile, kind, adds);
    const char *a = t->a + dtype_bytes(s.in) * (s.ta ? first * s.lda : first),
               *b = move_b(&s, t->b, s.tb ? 0 : first, s.tb ? first : 0);
    g->multiply(&s, a, b, sums, t->scratch);
}

// A reduction block is empty if a micro-batch has fewer tokens than there are blocks.
static void add_near_block(const tile_sum *t, int block, bool adds, char *sums) {
    const gemm_tree *tree = &t->g->tree;
    const int64_t first = tree->near * block / tree->n_blocks,
                  length = tree->near * (block + 1) / tree->n_blocks - first;
    if (length > 0)
        add_segment(t, length == tree->each[0] ? 0 : MAX_SEGMENTS, first, adds, sums);
    else if (!adds)
        memset(sums, 0, (size_t)t->sums_bytes);
}

static void add_block(const tile_sum *t, int block, bool adds, char *sums) {
    const gemm_tree *tree = &t->g->tree;
    if (tree->near) {
        add_near_block(t, block, adds, sums);
        return;
    }
    const bool shorter = tree->last > 0 && block == tree->n_blocks - 1;
    for (int i = 0; i < tree->n_segments; i++)
        add_segment(t, shorter ? MAX_SEGMENTS : i, tree->first[i] + block * tree->each[i],
                adds || i > 0, sums);
}

// Sums reduction blocks [low, high), divided as in comm/join.h.
static void join_blocks(const tile_sum *t, int low, int high, char *sums) {
    if (high - low == 1) {
        add_block(t, low, false, sums);
        return;
    }
    int half = 1;
    while (2 * half < high - low)
        half *= 2;
    join_blocks(t, low, low + half, sums);
    if (high - low - half == 1 && blocks_join_themselves(t->g)) {
        add_block(t, low + half, true, sums);
        return;
    }
    join_blocks(t, low + half, high, sums + t->sums_bytes);
    t->g->plain->accumulate(dtype_acc(t->tile.in), t->tile.m * t->tile.n, sums + t->sums_bytes,
            sums);
}

void tree_tile(const gemm *g, const gemm_shape *tile, const char *a, const char *b, char *c,
        char *scratch) {
    const int64_t unit = dtype_bytes(tile->out), acc = dtype_bytes(dtype_acc(tile->in));
    tile_sum t = {.g = g, .tile = *tile, .a = a, .b = b};
    t.sums_bytes = sums_bytes(tile);
    t.scratch = scratch + open_sums(g) * t.sums_bytes;
    join_blocks(&t, 0, g->tree.n_blocks, scratch);
    for (int64_t i = 0; i < tile->m; i++) {
        char *row = c + i * tile->ldc * unit;
        g->plain->narrow(tile->out, tile->n, scratch + i * tile->n * acc,
                tile->accumulate ? row : NULL, row);
    }
}
