// The shards of weights (ZeRO-3, docs/adr/0046): each of `ranks` ranks holds the elements of a
// weight that its optimizer shard has (ir/shard.h). If there are several `groups` of `ranks` ranks,
// each with all weights (docs/adr/0048), a shard of a weight consists of `groups` neighbouring
// optimizer shards. A weight in quantised blocks is cut at the same elements, which are multiples
// of every block size.
#pragma once
#include "ir/graph.h"
#include "ir/shard.h"

// Return the length of a shard of a weight of n elements, and the index of its first element.
static inline int64_t weight_shard_length(int64_t n, int ranks, int groups) {
    const int64_t length = groups * shard_length(n, ranks * groups);
    return length < n ? length : n;
}
static inline int64_t weight_shard_first(int64_t n, int ranks, int groups, int place) {
    const int64_t first = place * weight_shard_length(n, ranks, groups);
    return first < n ? first : n;
}

// Returns the byte offset of an element at which a shard begins; blocks NULL: elements of dt.
static inline int64_t weight_bytes_before(dtype dt, const block_matrix *blocks, int64_t element) {
    return blocks ? block_matrix_at(blocks, element) : element * dtype_bytes(dt);
}

// Returns the bytes of the shard at a place; `whole`: the tensor of the whole weight.
static inline int64_t weight_shard_bytes(const tensor *whole, int ranks, int groups, int place) {
    const int64_t n = tensor_elements(whole), first = weight_shard_first(n, ranks, groups, place),
                  end = weight_shard_first(n, ranks, groups, place + 1);
    return weight_bytes_before(whole->dt, whole->blocks, end) -
           weight_bytes_before(whole->dt, whole->blocks, first);
}

// Returns the size of the largest shard of a weight in blocks, in 32-bit words.
static inline int64_t weight_shard_words(const tensor *whole, int ranks, int groups) {
    int64_t most = 0;
    for (int i = 0; i < ranks; i++) {
        const int64_t bytes = weight_shard_bytes(whole, ranks, groups, i);
        if (bytes > most) most = bytes;
    }
    return div_up(most, 4);
}
