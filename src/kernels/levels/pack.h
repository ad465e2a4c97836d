// Packing: operands of a product are copied to where a register tile reads them one after the
// other, as words (words.h). Three layouts; w counts words of the inner dimension k.
//
// pack_rows: operand A stored [m, k]. Rows of words, ld words apart:
//
//            w = 0    1    2         n_words     ld
//     row 0    a00   a01   a02  ...   |   gap    |
//     row 1    a10   a11   a12  ...   |   gap    |
//
// pack_across: an operand stored [k, n] (B, or A transposed). Panels of `panel` columns, each
// dense; pair words hold two rows of storage:
//
//     panel 0          j = 0 .. panel - 1          panel 1     j = panel .. 2 panel - 1
//            w = 0    | b00 b01 b02 ... |          after the last word of panel 0
//            w = 1    | b10 b11 b12 ... |
//            ...
//     As pairs: word (w, j) = { b[2w][j], b[2w + 1][j] }.
//
// pack_transposed: operand B stored [n, k]. One such panel, made by transposing SQUARE x SQUARE
// words:
//
//     storage, words along rows            panel
//     j = 0   w0 w1 w2 ...                 w = 0   | j0 j1 j2 ... |
//     j = 1   w0 w1 w2 ...       ->        w = 1   | j0 j1 j2 ... |
//
// Columns that do not exist are 0; so is the half of a last pair.
#pragma once
#include "kernels/levels/words.h"

enum { AHEAD = 8 }; // words of the inner dimension that pack_across fetches ahead

// Begins to load what will be read soon.
INLINE void fetch(const char *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64)
        v_prefetch(p + i);
    v_prefetch(p + bytes - 1);
}

INLINE void pack_rows(const arithmetic *by, matrix m, int64_t at, int64_t n_rows, int64_t k,
        uint32_t *dst, int64_t ld) {
    for (int64_t i = 0; i < n_rows; i++)
        by->along(m.p, at + i * m.ld, k, dst + i * ld);
}

// panel: a multiple of WIDTH; a constant but where there is one panel. Reads n columns of k rows,
// from element `at` on; `ahead` fetches rows before they are read.
INLINE void pack_across(const arithmetic *by, int64_t panel, matrix m, int64_t at, int64_t n,
        int64_t k, bool ahead, uint32_t *dst) {
    const int64_t bytes = dtype_bytes(by->dt), n_words = words_of(by, k);
    for (int64_t w = 0; w < n_words; w++) {
        const int64_t row = w * by->per_word, later = row + AHEAD * by->per_word;
        for (int64_t r = later; ahead && r < later + by->per_word && r < k; r++)
            fetch((const char *)m.p + (at + r * m.ld) * bytes, n * bytes);
        const int64_t from = at + row * m.ld;
        uint32_t *to = dst + w * panel;
        int64_t j = 0;
        for (; j + panel <= n; j += panel)
            for (int64_t l = 0; l < panel; l += WIDTH)
                store_words(to + j * n_words + l,
                        by->across(m.p, from + j + l, m.ld, k - row, WIDTH));
        for (int64_t l = 0; j < n && l < panel; l += WIDTH) {
            const int64_t left = n - j - l, have = left < 0 ? 0 : left < WIDTH ? left : WIDTH;
            store_words(to + j * n_words + l,
                    by->across(m.p, from + j + l, m.ld, k - row, (int)have));
        }
    }
}

// Returns one word of row i of the panel's n.
INLINE uint32_t word_of(const arithmetic *by, matrix m, int64_t at, int64_t i, int64_t n, int64_t k,
        int64_t w) {
    const int64_t left = k - w * by->per_word, have = left < by->per_word ? left : by->per_word;
    uint32_t word = 0;
    if (i < n) by->along(m.p, at + i * m.ld + w * by->per_word, have, &word);
    return word;
}

// n <= panel, a multiple of SQUARE.
INLINE void pack_transposed(const arithmetic *by, const int panel, matrix m, int64_t at, int64_t n,
        int64_t k, uint32_t *dst) {
    const int64_t n_words = words_of(by, k), whole_words = k / by->per_word;
    for (int64_t r = 0; r < panel; r += SQUARE) {
        int64_t done = 0; // words of these SQUARE rows
        for (; r + SQUARE <= n && done + SQUARE <= whole_words; done += SQUARE) {
            square_row block[SQUARE];
            for (int i = 0; i < SQUARE; i++)
                block[i] = by->square_along(m.p, at + (r + i) * m.ld + done * by->per_word);
            transpose(block);
            for (int i = 0; i < SQUARE; i++)
                square_store(dst + (done + i) * panel + r, block[i]);
        }
        for (int64_t i = r; i < r + SQUARE; i++)
            for (int64_t w = done; w < n_words; w++)
                dst[w * panel + i] = word_of(by, m, at, i, n, k, w);
    }
}
