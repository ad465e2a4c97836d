// The shards of weights (ZeRO-3, docs/adr/0046): each of `ranks` ranks holds the elements of a
// weight that its shard of the optimizer has (ir/shard.h). A weight in quantised blocks is cut at
// the same elements, which are multiples of every block.
#pragma once
#include "ir/graph.h"
#include "ir/shard.h"

// Returns the bytes that precede an element at which a shard begins; blocks NULL: elements of dt.
static inline int64_t weight_bytes_before(dtype dt, const block_matrix *blocks, int64_t element) {
    return blocks ? block_matrix_at(blocks, element) : element * dtype_bytes(dt);
}

// Returns the bytes that precede the shard of a place, of a whole weight of n elements; of place
// `ranks`, all its bytes.
static inline int64_t weight_shard_at(dtype dt, const block_matrix *blocks, int64_t n, int ranks,
        int place) {
    return weight_bytes_before(dt, blocks, shard_first(n, ranks, place));
}

// Returns the 32-bit words of the largest shard of a weight in blocks.
static inline int64_t weight_shard_words(const tensor *whole, int ranks) {
    const int64_t n = tensor_elements(whole);
    int64_t most = 0;
    for (int i = 0; i < ranks; i++) {
        const int64_t bytes = weight_shard_at(whole->dt, whole->blocks, n, ranks, i + 1) -
                              weight_shard_at(whole->dt, whole->blocks, n, ranks, i);
        if (bytes > most) most = bytes;
    }
    return div_up(most, 4);
}
