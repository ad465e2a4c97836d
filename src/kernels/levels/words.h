// Products multiply 32-bit words along the inner dimension of their operands, so that one loop
// serves all types. An arithmetic defines the content of a word:
//
//     float word                     pair word
//     31                     0       31       16 15        0
//     [        x[w]          ]       [ x[2w + 1] |  x[2w]  ]      w counts words
//
//     f32_words    floats, multiplied by fp32 FMA
//     wide_words   bf16, widened to float words as they are packed, then the same
//     pair_words   pairs of bf16, multiplied by the bf16 dot product (words_pair.h)
//
// An arithmetic is always passed as one of these three constants to inlined functions, so that its
// members are compile-time constants and its functions are inlined.
#pragma once
#include <string.h>

#include "base/round.h"
#include "kernels/levels/vec.h"

typedef struct arithmetic {
    dtype dt;     // of the operands in memory; what is rounded is rounded to it
    int per_word; // elements of the inner dimension in a word
    // sum + a b: the word a with each of WIDTH words of b.
    vec (*mac)(vec sum, uint32_t a, vec b);
    // n elements of a row as words; the half of a last word that is missing becomes 0.
    void (*along)(const void *src, int64_t at, int64_t n, uint32_t *dst);
    // SQUARE words of a row.
    square_row (*square_along)(const void *src, int64_t at);
    // WIDTH words that run down the rows: word i from element at + i of per_word rows that are
    // ld elements apart. Elements from n on and rows from n_rows on are 0.
    vec (*across)(const void *src, int64_t at, int64_t ld, int64_t n_rows, int n);
    // WIDTH values of two rows as words that run down the rows; NULL where a word is one value.
    void (*put_across)(uint32_t *dst, vec upper, vec lower);
} arithmetic;

// A matrix in memory: rows of elements, ld apart.
typedef struct matrix {
    const void *p;
    int64_t ld;
} matrix;

// Operand A of a product: word w of row i is p[i * row + w * word].
typedef struct words_a {
    const uint32_t *p;
    int64_t row, word;
} words_a;

// Operand B: word w of column j is p[w * ld + j].
typedef struct words_b {
    const uint32_t *p;
    int64_t ld;
} words_b;

// Sums of a product: rows ld apart.
typedef struct sums {
    float *p;
    int64_t ld;
} sums;

INLINE int64_t words_of(const arithmetic *by, int64_t n_elements) {
    return div_up(n_elements, by->per_word);
}

INLINE vec load_words(const uint32_t *p) {
    return v_load((const float *)(const void *)p, WIDTH);
}
INLINE void store_words(uint32_t *p, vec words) {
    v_store((float *)(void *)p, words, WIDTH);
}

// WIDTH values, rounded to the operands' type, as words of a row.
INLINE void put_along(const arithmetic *by, uint32_t *dst, vec x) {
    if (by->per_word == 2)
        v_store_bf16((uint16_t *)(void *)dst, x, WIDTH);
    else
        store_words(dst, v_rounded_as(by->dt, x));
}

INLINE vec float_mac(vec sum, uint32_t a, vec b) {
    float x;
    memcpy(&x, &a, 4);
    return v_fma(v_set(x), b, sum);
}

INLINE void f32_along(const void *src, int64_t at, int64_t n, uint32_t *dst) {
    float *out = (float *)(void *)dst;
    FOR_VECTORS(j, k, n, { v_store(out + j, v_load_as(DT_F32, src, at + j, k), k); });
}
INLINE square_row f32_square_along(const void *src, int64_t at) {
    return square_load((const float *)src + at);
}
INLINE vec f32_across(const void *src, int64_t at, int64_t ld, int64_t n_rows, int n) {
    (void)ld; // of one row
    return n_rows > 0 ? v_load_as(DT_F32, src, at, n) : v_set(0);
}

INLINE void wide_along(const void *src, int64_t at, int64_t n, uint32_t *dst) {
    float *out = (float *)(void *)dst;
    FOR_VECTORS(j, k, n, { v_store(out + j, v_load_as(DT_BF16, src, at + j, k), k); });
}
INLINE square_row wide_square_along(const void *src, int64_t at) {
    return square_load_bf16((const uint16_t *)src + at);
}
INLINE vec wide_across(const void *src, int64_t at, int64_t ld, int64_t n_rows, int n) {
    (void)ld; // of one row
    return n_rows > 0 ? v_load_as(DT_BF16, src, at, n) : v_set(0);
}

static const arithmetic f32_words = {
        .dt = DT_F32,
        .per_word = 1,
        .mac = float_mac,
        .along = f32_along,
        .square_along = f32_square_along,
        .across = f32_across,
};

static const arithmetic wide_words = {
        .dt = DT_BF16,
        .per_word = 1,
        .mac = float_mac,
        .along = wide_along,
        .square_along = wide_square_along,
        .across = wide_across,
};
