// Cuts a tensor among data ranks that share the optimizer (ZeRO, arXiv:1910.02054) into shards of
// equal length; the last ones may be shorter or empty. A shard begins at a multiple of SHARD_UNIT,
// so that the vectors of AdamW are aligned to cache lines.
#pragma once
#include <stdint.h>

#include "base/round.h"

enum { SHARD_UNIT = 1024 }; // elements
// Elements of a sum that are added at a time; the most open sums (see below), which suffices for
// more than 2^20 accumulation groups.
enum { SHARD_SUM_ELEMENTS = 256, SHARD_MAX_OPEN = 24 };

// Returns the length of a shard of n elements; the last shards are padded with zeros.
static inline int64_t shard_length(int64_t n, int ranks) {
    const int64_t length = div_up(div_up(n, ranks), SHARD_UNIT) * SHARD_UNIT;
    return length < n ? length : n;
}

// Return the index of a shard's first element in the tensor, and the number of its elements.
static inline int64_t shard_first(int64_t n, int ranks, int place) {
    const int64_t first = place * shard_length(n, ranks);
    return first < n ? first : n;
}
static inline int64_t shard_count(int64_t n, int ranks, int place) {
    const int64_t left = n - shard_first(n, ranks, place), length = shard_length(n, ranks);
    return left < length ? left : length;
}

// --- sums of gradients in shards (ZeRO-2, docs/adr/0021)
// Returns the number of open sums after `before` micro-batches: one for each complete subtree of
// accumulation groups, and one for the group that is not complete.
static inline int shard_open(int64_t before, int64_t in_accum_group) {
    int n = before % in_accum_group > 0;
    for (int64_t accum_groups = before / in_accum_group; accum_groups > 0; accum_groups /= 2)
        n += (int)(accum_groups % 2);
    return n;
}

// Returns the maximum of open sums while `all` micro-batches are added, `at_once` at a time.
static inline int shard_most_open(int64_t all, int64_t at_once, int64_t in_accum_group) {
    int most = 1;
    if (in_accum_group >= all) return most; // one group, which is complete at the end
    for (int64_t before = at_once; before <= all; before += at_once) {
        const int n = shard_open(before, in_accum_group);
        if (n > most) most = n;
    }
    return most;
}
