// Sums of reduction blocks that arrive in any order, in the tree of comm/join.h. As soon as both
// halves of a node exist they are added, the earlier blocks as the left operand. So the bits depend
// on the blocks only, and no more partial sums are pending than the order requires.
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
    bool taken[RING_TREE_SLOTS]; // the slots for partial sums, of which the caller has n_slots
    struct waiting_sum {
        block_run blocks;
        int slot;
    } waiting[RING_TREE_SLOTS];
    int n_waiting;
    void (*join)(void *ctx, int left, int right); // the sum of two slots into the left one
    void *ctx;
} ring_tree;

// Returns the maximum of slots for n_ranks ranks with `row_blocks` reduction blocks each, whose
// blocks arrive rank after rank, in rising or falling order, once around from any rank.
int ring_tree_slots(int n_ranks, int row_blocks);
int ring_tree_take(ring_tree *t); // a free slot
// Adds the sum of these reduction blocks, a node of the tree, which is in `slot`.
void ring_tree_add(ring_tree *t, block_run blocks, int slot);
// Returns the slot of the total after all reduction blocks were added.
int ring_tree_result(const ring_tree *t);
