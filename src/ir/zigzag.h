// Cuts a row among the ranks of the context axis (docs/adr/0015) into 2 n chunks. Reduction block j
// of n has chunks j and 2 n - 1 - j, so that under a causal mask all blocks have the same work. A
// rank has `blocks_here` neighbouring reduction blocks, by default one.
#pragma once
#include <stdint.h>

enum { ZIGZAG_HALVES = 2 }; // chunks of a reduction block

typedef struct zigzag {
    int ranks, blocks_here; // reduction blocks of the row: ranks * blocks_here
    int64_t tokens;         // of a row, a multiple of all chunks
} zigzag;

static inline int zigzag_blocks(const zigzag *z) {
    return z->ranks * z->blocks_here;
}
static inline int64_t zigzag_chunk_tokens(const zigzag *z) {
    return z->tokens / ZIGZAG_HALVES / zigzag_blocks(z);
}
// Returns the number of chunks of a rank.
static inline int zigzag_chunks(const zigzag *z) {
    return ZIGZAG_HALVES * z->blocks_here;
}
// Returns the index in the row of the chunk that is chunk i of the rank at `place`.
static inline int64_t zigzag_chunk(const zigzag *z, int place, int i) {
    const int64_t block = (int64_t)place * z->blocks_here + i / ZIGZAG_HALVES;
    return i % ZIGZAG_HALVES ? ZIGZAG_HALVES * zigzag_blocks(z) - 1 - block : block;
}
// Returns the index of the first token of chunk i of row `row` among a rank's tokens of n_rows
// rows. They are ordered by block, so that one block has the tokens of a rank with a single block.
static inline int64_t zigzag_token(const zigzag *z, int64_t n_rows, int64_t row, int i) {
    return ((i / ZIGZAG_HALVES * n_rows + row) * ZIGZAG_HALVES + i % ZIGZAG_HALVES) *
           zigzag_chunk_tokens(z);
}
