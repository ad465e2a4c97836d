// The bytes that a rank sends in a collective of src/comm, for plans and for the counts of a run.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/exact_sum.h"
#include "base/round.h"

// Sums up to this size are exchanged whole: one round of messages instead of two.
enum { WIRE_SMALL_BYTES = 4096 };

// An exact sum of doubles (base/exact_sum.h).
enum { WIRE_EXACT_BYTES = EXACT_LIMBS * 8 };

// Returns the bytes of scratch in which a sum of n elements is reduced.
static inline int64_t wire_scratch(dtype dt, int64_t n, int ranks) {
    if (ranks == 1) return 0;
    const bool whole = n * dtype_bytes(dt) <= WIRE_SMALL_BYTES;
    return (whole ? n : div_up(n, ranks)) * ranks * dtype_bytes(dt);
}

static inline double wire_gather(double part_bytes, int ranks) {
    return part_bytes * (ranks - 1);
}

// Counts all parts but the rank's own.
static inline double wire_scatter(double all_bytes, int ranks) {
    return all_bytes * (ranks - 1) / ranks;
}

static inline double wire_all_reduce(double bytes, int ranks) {
    if (bytes <= WIRE_SMALL_BYTES) return wire_gather(bytes, ranks);
    return wire_scatter(bytes, ranks) + wire_gather(bytes / ranks, ranks);
}
