// A fixed tree over leaves that come in any order.
#include "backend/cpu/ring_tree.h"

#include "base/status.h"

// The node that `of` is half of; *other: the other half.
static leaf_run parent(int n_leaves, leaf_run of, leaf_run *other) {
    leaf_run node = {0, n_leaves};
    for (;;) {
        int half = 1;
        while (2 * half < node.end - node.first)
            half *= 2;
        const leaf_run left = {node.first, node.first + half}, right = {left.end, node.end};
        const bool is_left = of.end <= left.end;
        const leaf_run with = is_left ? left : right;
        *other = is_left ? right : left;
        DRV_ASSERT(half < node.end - node.first && with.first <= of.first && of.end <= with.end,
                "leaves %d to %d are no node of a tree of %d", of.first, of.end, n_leaves);
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
    DRV_ASSERT(false, "more than %d partial sums of %d leaves", t->n_slots, t->n_leaves);
    return 0;
}

// Takes a run out of those that wait; its slot, or -1.
static int take_waiting(ring_tree *t, leaf_run leaves) {
    for (int i = 0; i < t->n_waiting; i++)
        if (t->waiting[i].leaves.first == leaves.first && t->waiting[i].leaves.end == leaves.end) {
            const int slot = t->waiting[i].slot;
            t->waiting[i] = t->waiting[--t->n_waiting];
            return slot;
        }
    return -1;
}

void ring_tree_add(ring_tree *t, leaf_run leaves, int slot) {
    while (leaves.end - leaves.first < t->n_leaves) {
        leaf_run other;
        const leaf_run node = parent(t->n_leaves, leaves, &other);
        const int there = take_waiting(t, other);
        if (there < 0) break;
        const bool is_left = leaves.first < other.first;
        const int left = is_left ? slot : there, right = is_left ? there : slot;
        t->join(t->ctx, left, right);
        t->taken[right] = false;
        slot = left;
        leaves = node;
    }
    t->waiting[t->n_waiting++] = (struct waiting_sum){leaves, slot};
}

int ring_tree_result(const ring_tree *t) {
    DRV_ASSERT(t->n_waiting == 1 && t->waiting[0].leaves.end == t->n_leaves, "%d sums of %d leaves",
            t->n_waiting, t->n_leaves);
    return t->waiting[0].slot;
}

// --- how many slots
static void join_nothing(void *ctx, int left, int right) {
    (void)ctx, (void)left, (void)right;
}

// Falling from `first` on, once around. (Rising order needs no more: counted up to 64 ranks.)
static int slots_from(int n_ranks, int row_leaves, int first) {
    ring_tree t = {.n_leaves = n_ranks * row_leaves,
            .n_slots = RING_TREE_SLOTS,
            .join = join_nothing};
    int most = 0;
    for (int i = 0; i < n_ranks * row_leaves; i++) {
        const int rank = (first + n_ranks - i / row_leaves) % n_ranks,
                  leaf = rank * row_leaves + row_leaves - 1 - i % row_leaves, n = t.n_waiting + 1;
        if (n > most) most = n;
        ring_tree_add(&t, (leaf_run){leaf, leaf + 1}, ring_tree_take(&t));
    }
    return most;
}

int ring_tree_slots(int n_ranks, int row_leaves) {
    enum { COUNTED = 64 };
    int most = 0, bound = 0;
    while ((int64_t)1 << bound < (int64_t)n_ranks * row_leaves)
        bound++;
    if ((int64_t)n_ranks * row_leaves > COUNTED) return 2 * bound;
    for (int first = 0; first < n_ranks; first++) {
        const int n = slots_from(n_ranks, row_leaves, first);
        if (n > most) most = n;
    }
    return most;
}
