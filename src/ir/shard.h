// How a tensor is cut among data ranks that share the optimizer (ZeRO, arXiv:1910.02054): in shards
// of equal length, of which the last ones may be short or empty. A shard begins at a multiple of
// SHARD_UNIT, so the vectors of AdamW begin where cache lines do.
#pragma once
#include <stdint.h>

#include "base/round.h"

enum { SHARD_UNIT = 1024 }; // elements

// Elements of a shard of n, the missing ones of the last included, which are zero.
static inline int64_t shard_length(int64_t n, int ranks) {
    const int64_t length = div_up(div_up(n, ranks), SHARD_UNIT) * SHARD_UNIT;
    return length < n ? length : n;
}

// Of a shard: its first element in the tensor, and how many of it are there.
static inline int64_t shard_first(int64_t n, int ranks, int place) {
    const int64_t first = place * shard_length(n, ranks);
    return first < n ? first : n;
}
static inline int64_t shard_count(int64_t n, int ranks, int place) {
    const int64_t left = n - shard_first(n, ranks, place), length = shard_length(n, ranks);
    return left < length ? left : length;
}
