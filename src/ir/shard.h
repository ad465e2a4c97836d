// Says how a tensor is cut among data ranks that share the optimizer (ZeRO, arXiv:1910.02054): in
// shards of equal length, of which the last ones may be short or empty. A shard begins at a
// multiple of SHARD_UNIT, so the vectors of AdamW begin where cache lines do.
#pragma once
#include <stdint.h>

#include "base/round.h"

enum { SHARD_UNIT = 1024 }; // elements

// Returns the elements of a shard of n, the missing ones of the last included, which are zero.
static inline int64_t shard_length(int64_t n, int ranks) {
    const int64_t length = div_up(div_up(n, ranks), SHARD_UNIT) * SHARD_UNIT;
    return length < n ? length : n;
}

// Return the first element of a shard in the tensor, and how many elements it has there.
static inline int64_t shard_first(int64_t n, int ranks, int place) {
    const int64_t first = place * shard_length(n, ranks);
    return first < n ? first : n;
}
static inline int64_t shard_count(int64_t n, int ranks, int place) {
    const int64_t left = n - shard_first(n, ranks, place), length = shard_length(n, ranks);
    return left < length ? left : length;
}

// --- sums of gradients in shards (ZeRO-2, docs/adr/0021)
// Sums that are open when `before` micro-batches are added: one of each complete part of the tree
// over their accumulation groups, and the accumulation group that is under way.
static inline int shard_open(int64_t before, int64_t in_accum_group) {
    int n = before % in_accum_group > 0;
    for (int64_t accum_groups = before / in_accum_group; accum_groups > 0; accum_groups /= 2)
        n += (int)(accum_groups % 2);
    return n;
}

// Returns the most of them that are kept while `all` micro-batches come, `at_once` of them at a
// time.
static inline int shard_most_open(int64_t all, int64_t at_once, int64_t in_accum_group) {
    int most = 1;
    for (int64_t before = at_once; before <= all; before += at_once) {
        const int n = shard_open(before, in_accum_group);
        if (n > most) most = n;
    }
    return most;
}
