// Says how a row is cut among the ranks of the context axis (docs/adr/0015): in 2 n chunks, of
// which leaf j of n has j and 2 n - 1 - j, so that under a causal mask all leaves have the same
// work. A rank has `leaves_here` neighbouring leaves, one unless asked for more.
#pragma once
#include <stdint.h>

enum { ZIGZAG_HALVES = 2 }; // chunks of a leaf

typedef struct zigzag {
    int ranks, leaves_here; // leaves of the row: ranks * leaves_here
    int64_t tokens;         // of a row, a multiple of all chunks
} zigzag;

static inline int zigzag_leaves(const zigzag *z) {
    return z->ranks * z->leaves_here;
}
static inline int64_t zigzag_chunk_tokens(const zigzag *z) {
    return z->tokens / ZIGZAG_HALVES / zigzag_leaves(z);
}
// Chunks of a rank.
static inline int zigzag_chunks(const zigzag *z) {
    return ZIGZAG_HALVES * z->leaves_here;
}
// Returns the place in the row, in chunks, of chunk i of the rank at `place`.
static inline int64_t zigzag_chunk(const zigzag *z, int place, int i) {
    const int64_t leaf = (int64_t)place * z->leaves_here + i / ZIGZAG_HALVES;
    return i % ZIGZAG_HALVES ? ZIGZAG_HALVES * zigzag_leaves(z) - 1 - leaf : leaf;
}
// Returns where chunk i of row `row` begins among the tokens that a rank has of n_rows: leaf after
// leaf, so that the tokens of one are those of a rank that has no other.
static inline int64_t zigzag_token(const zigzag *z, int64_t n_rows, int64_t row, int i) {
    return ((i / ZIGZAG_HALVES * n_rows + row) * ZIGZAG_HALVES + i % ZIGZAG_HALVES) *
           zigzag_chunk_tokens(z);
}
