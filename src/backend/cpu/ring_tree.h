// Sums whose reduction blocks come in any order and are joined in one tree, that of comm/join.h: as
// soon as both halves of a node are there they are joined, the earlier reduction blocks on the
// left. So the bits follow from the reduction blocks alone, and no more partial sums wait than the
// order makes necessary.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { RING_TREE_SLOTS = 64 };

// A run of reduction blocks: [first, end).
typedef struct block_run {
    int first, end;
} block_run;

typedef struct ring_tree {
    int n_blocks, n_slots;
    bool taken[RING_TREE_SLOTS]; // memory for a partial sum, of which the caller has n_slots
    struct waiting_sum {
        block_run blocks;
        int slot;
    } waiting[RING_TREE_SLOTS];
    int n_waiting;
    void (*join)(void *ctx, int left, int right); // the sum of two slots into the left one
    void *ctx;
} ring_tree;

// Returns the slots that n_ranks ranks with `row_blocks` reduction blocks each need at most,
// whichever begins, where reduction blocks come rank after rank, rising or falling, once around.
int ring_tree_slots(int n_ranks, int row_blocks);
int ring_tree_take(ring_tree *t); // a free slot
// Gives a slot back to the tree: it holds the sum of these reduction blocks, a node of the tree.
void ring_tree_add(ring_tree *t, block_run blocks, int slot);
// Returns the slot of the sum of all reduction blocks, which have been added.
int ring_tree_result(const ring_tree *t);
