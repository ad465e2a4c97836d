// Operands of products by tile registers (tiles.h), packed as squares of 16 x 16 pair words
// (words.h), each what a register holds. Lines, rows of a or columns of b, are taken in pairs of
// strips of 16:
//
//                 group 0           group 1             a group: 32 elements of k
//     pair 0    | strip | strip | strip | strip | ...
//     pair 1    after the last group of pair 0
//
// Row i of a square of a is line i; row w of a square of b is word w of each line. Lines and
// elements that do not exist are 0.
#pragma once
#include "kernels/levels/tiles.h"
#include "kernels/levels/words.h"

enum { PAIR = 2 * TILE_SIDE, PAIR_WORDS = 2 * TILE_WORDS };

// An operand, from the first line of a strip and the first element of a block of k on. along: k
// runs along the rows of storage, ld elements apart. by_line: squares as of a.
typedef struct strip_source {
    const uint16_t *p;
    int64_t ld;
    bool along, by_line;
} strip_source;

// Lines of storage, as they are.
INLINE void copy_square(const uint16_t *from, int64_t ld, uint32_t *to) {
#pragma GCC unroll 16
    for (int i = 0; i < TILE_SIDE; i++)
        memcpy(to + i * TILE_SIDE, from + i * ld, 4 * TILE_SIDE);
}

// Lines that run down the rows of storage; row w of the square has word w of each.
INLINE void join_square(const uint16_t *from, int64_t ld, uint32_t *to) {
    for (int w = 0; w < TILE_SIDE; w++, from += 2 * ld, to += TILE_SIDE)
        for (int i = 0; i < TILE_SIDE; i++)
            to[i] = from[i] | (uint32_t)from[ld + i] << 16;
}

// Word j of row i becomes word i of row j.
INLINE void transpose_square(const void *from, int64_t row_bytes, uint32_t *to) {
    for (int i = 0; i < TILE_SIDE; i += SQUARE)
        for (int j = 0; j < TILE_SIDE; j += SQUARE) {
            square_row block[SQUARE];
#pragma GCC unroll 16
            for (int r = 0; r < SQUARE; r++)
                block[r] = square_load((const char *)from + (i + r) * row_bytes + 4 * j);
            transpose(block);
#pragma GCC unroll 16
            for (int r = 0; r < SQUARE; r++)
                square_store(to + (j + r) * TILE_SIDE + i, block[r]);
        }
}

// A square whose lines and elements all exist.
INLINE void pack_whole(const strip_source *from, uint32_t *to) {
    uint32_t joined[TILE_WORDS];
    if (from->along && from->by_line) {
        copy_square(from->p, from->ld, to);
    } else if (from->along) {
        transpose_square(from->p, 2 * from->ld, to);
    } else if (!from->by_line) {
        join_square(from->p, from->ld, to);
    } else {
        join_square(from->p, from->ld, joined);
        transpose_square(joined, 4 * TILE_SIDE, to);
    }
}

// A square of n lines and k elements, fewer than a full one, which is copied first.
static void pack_edge(const strip_source *from, int64_t n, int64_t k, uint32_t *to) {
    uint16_t copy[TILE_SIDE * TILE_GROUP] = {0};
    const int64_t n_rows = from->along ? n : k, length = from->along ? k : n,
                  most = from->along ? TILE_SIDE : TILE_GROUP, ld = TILE_SIDE * TILE_GROUP / most;
    for (int64_t i = 0; i < n_rows && i < most; i++)
        if (length > 0)
            memcpy(copy + i * ld, from->p + i * from->ld,
                    sizeof *from->p * (size_t)(length < ld ? length : ld));
    const strip_source whole = {copy, ld, from->along, from->by_line};
    pack_whole(&whole, to);
}

// From here on n lines and k elements exist, perhaps none.
INLINE void pack_square(const strip_source *from, int64_t n, int64_t k, uint32_t *to) {
    if (n >= TILE_SIDE && k >= TILE_GROUP)
        pack_whole(from, to);
    else
        pack_edge(from, n, k, to);
}

// The squares of a strip, one after the other.
INLINE void pack_strip(const strip_source *from, int64_t n, int64_t k, uint32_t *to) {
    strip_source part = *from;
    for (; k > 0; k -= TILE_GROUP, to += TILE_WORDS) {
        pack_square(&part, n, k, to);
        part.p += TILE_GROUP * (from->along ? 1 : from->ld);
    }
}

// n lines of k elements as pairs, in the order of storage: the hardware prefetches long runs better
// than software can.
static void pack_pairs(const strip_source *from, int64_t n, int64_t k, uint32_t *to) {
    const int64_t n_groups = div_up(k, TILE_GROUP), n_pairs = div_up(n, PAIR),
                  inner = from->along ? n_groups : n_pairs,
                  side = TILE_SIDE * (from->along ? from->ld : 1);
    for (int64_t at = 0; at < n_groups * n_pairs; at++) {
        const int64_t pair = from->along ? at / inner : at % inner,
                      group = from->along ? at % inner : at / inner, line = pair * PAIR,
                      first = group * TILE_GROUP;
        strip_source part = *from;
        part.p += from->along ? line * from->ld + first : first * from->ld + line;
        uint32_t *there = to + (pair * n_groups + group) * PAIR_WORDS;
        pack_square(&part, n - line, k - first, there);
        part.p += side;
        pack_square(&part, n - line - TILE_SIDE, k - first, there + TILE_WORDS);
    }
}
