// Adds reduction blocks, which arrive in any order, in a fixed tree.
#include "backend/cpu/ring_tree.h"

#include "base/status.h"

// Returns the node of which `of` is one half; *other is the other half.
static block_run parent(int n_blocks, block_run of, block_run *other) {
    block_run node = {0, n_blocks};
    for (;;) {
        int half = 1;
        while (2 * half < node.end - node.first)
            half *= 2;
        const block_run left = {node.first, node.first + half}, right = {left.end, node.end};
        const bool is_left = of.end <= left.end;
        const block_run with = is_left ? left : right;
        *other = is_left ? right : left;
        DRV_ASSERT(half < node.end - node.first && with.first <= of.first && of.end <= with.end,
                "blocks %d to %d are not a node of a tree of %d", of.first, of.end, n_blocks);
        if (with.first == of.first && with.end == of.end) return node;
        node = with;
    }
}

int ring_tree_take(ring_tree *t) {
    for (int i = 0; i < t->n_slots; i++)
        if (!t->taken[i]) {
            t->taken[i] = true;
            return i;
        }
    DRV_ASSERT(false, "more than %d partial sums of %d reduction blocks", t->n_slots, t->n_blocks);
    return 0;
}

// Removes the sum of these blocks from the pending ones; returns its slot, or -1.
static int take_waiting(ring_tree *t, block_run blocks) {
    for (int i = 0; i < t->n_waiting; i++)
        if (t->waiting[i].blocks.first == blocks.first && t->waiting[i].blocks.end == blocks.end) {
            const int slot = t->waiting[i].slot;
            t->waiting[i] = t->waiting[--t->n_waiting];
            return slot;
        }
    return -1;
}

void ring_tree_add(ring_tree *t, block_run blocks, int slot) {
    while (blocks.end - blocks.first < t->n_blocks) {
        block_run other;
        const block_run node = parent(t->n_blocks, blocks, &other);
        const int there = take_waiting(t, other);
        if (there < 0) break;
        const bool is_left = blocks.first < other.first;
        const int left = is_left ? slot : there, right = is_left ? there : slot;
        t->join(t->ctx, left, right);
        t->taken[right] = false;
        slot = left;
        blocks = node;
    }
    t->waiting[t->n_waiting++] = (struct waiting_sum){blocks, slot};
}

int ring_tree_result(const ring_tree *t) {
    DRV_ASSERT(t->n_waiting == 1 && t->waiting[0].blocks.end == t->n_blocks,
            "%d sums of %d reduction blocks", t->n_waiting, t->n_blocks);
    return t->waiting[0].slot;
}

// --- number of slots
static void join_nothing(void *ctx DRV_UNUSED, int left DRV_UNUSED, int right DRV_UNUSED) {}

// Counts slots for falling order from `first` on. (Rising order needs no more, up to 64 ranks.)
static int slots_from(int n_ranks, int row_blocks, int first) {
    ring_tree t = {.n_blocks = n_ranks * row_blocks,
            .n_slots = RING_TREE_SLOTS,
            .join = join_nothing};
    int most = 0;
    for (int i = 0; i < n_ranks * row_blocks; i++) {
        const int rank = (first + n_ranks - i / row_blocks) % n_ranks,
                  block = rank * row_blocks + row_blocks - 1 - i % row_blocks, n = t.n_waiting + 1;
        if (n > most) most = n;
        ring_tree_add(&t, (block_run){block, block + 1}, ring_tree_take(&t));
    }
    return most;
}

// A search for layouts asks for every attention of every plan, so each thread keeps the results.
int ring_tree_slots(int n_ranks, int row_blocks) {
    enum { COUNTED = 64 };
    static _Thread_local uint8_t known[COUNTED + 1][COUNTED + 1];
    int bound = 0;
    while ((int64_t)1 << bound < (int64_t)n_ranks * row_blocks)
        bound++;
    if ((int64_t)n_ranks * row_blocks > COUNTED) return 2 * bound;
    uint8_t *slots = &known[n_ranks][row_blocks];
    if (*slots) return *slots;
    for (int first = 0; first < n_ranks; first++) {
        const int n = slots_from(n_ranks, row_blocks, first);
        if (n > *slots) *slots = (uint8_t)n;
    }
    return *slots;
}
