// The exact sum of squares of floats, in one pass over memory. The square of a float is exact in
// double, so only additions round, and their error can be computed: with |sum| >= |x|, (sum + x) -
// sum is the part of x that was added, and x minus that is the remainder, both exact (Dekker, "A
// Floating-Point Technique for Extending the Available Precision", 1971). Each fold is a sum that
// starts at a large number, so that all parts added to it are multiples of the same unit and add up
// without rounding, in any order; the next fold takes the remainders, 2^41 times smaller.
// (Rump, Ogita and Oishi, "Accurate Floating-Point Summation", SIAM J. Sci. Comput. 31(1), 2008,
// section 3.) Compiled in every level of kernels.
#pragma once
#include <math.h>
#include <stdbool.h>

#include "kernels/ref/ref.h"

// So that a vector of doubles is one register.
#ifdef __AVX512F__
enum { SQUARES_LANES = 8 };
#elif defined __AVX2__
enum { SQUARES_LANES = 4 };
#else
enum { SQUARES_LANES = 2 };
#endif
enum { FOLD_BITS = 41, FEW_FOLDS = 3, MORE_FOLDS = 5, ALL_FOLDS = SQUARES_SUMS };
typedef uint16_t square_halves __attribute__((vector_size(2 * SQUARES_LANES)));
typedef uint32_t square_words __attribute__((vector_size(4 * SQUARES_LANES)));
typedef float square_floats __attribute__((vector_size(4 * SQUARES_LANES)));
typedef double square_lanes __attribute__((vector_size(8 * SQUARES_LANES)));
typedef int64_t square_bits __attribute__((vector_size(8 * SQUARES_LANES)));

// Returns the bits of the largest magnitude, as a float.
static inline __attribute__((always_inline)) uint32_t largest_bits(dtype dt, int64_t n,
        const void *values) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t word;
        const float x = dt == DT_BF16 ? bf16_to_f32(((const uint16_t *)values)[i])
                                      : ((const float *)values)[i];
        memcpy(&word, &x, sizeof word);
        word &= 0x7FFFFFFF;
        most = word > most ? word : most;
    }
    return most;
}

// Adds up `count` squares below 2^bound by n_folds sums. Whether anything is left of any.
static inline __attribute__((always_inline)) bool fold_squares(dtype dt, int64_t count,
        const void *values, int bound, int n_folds, double *parts) {
    // A fold of at most SQUARES_MOST numbers below 2^bound stays near 1.5 2^(bound + 12) and leaves
    // at most 2^(bound - 41) of each.
    double start[ALL_FOLDS];
    square_lanes fold[ALL_FOLDS];
    square_bits left = {0};
    for (int f = 0; f < n_folds; f++) {
        start[f] = ldexp(1.5 * SQUARES_MOST, bound - f * FOLD_BITS);
        fold[f] = (square_lanes){0} + start[f];
    }
    const size_t bytes = (size_t)dtype_bytes(dt);
    for (int64_t i = 0; i < count; i += SQUARES_LANES) {
        // The next SQUARES_MOST numbers, while there is more to compute than to read.
        __builtin_prefetch((const char *)values + ((size_t)i + SQUARES_MOST) * bytes);
        const size_t n_here = count - i < SQUARES_LANES ? (size_t)(count - i) : SQUARES_LANES;
        square_halves halves = {0};
        square_floats x = {0};
        void *to = dt == DT_BF16 ? (void *)&halves : (void *)&x;
        const char *from = (const char *)values + (size_t)i * bytes;
        if (n_here == SQUARES_LANES)
            memcpy(to, from, SQUARES_LANES * bytes);
        else
            memcpy(to, from, n_here * bytes);
        if (dt == DT_BF16) x = (square_floats)(__builtin_convertvector(halves, square_words) << 16);
        square_lanes rest = __builtin_convertvector(x, square_lanes);
        rest *= rest;
        for (int f = 0; f < n_folds; f++) {
            const square_lanes sum = fold[f] + rest;
            rest -= sum - fold[f];
            fold[f] = sum;
        }
        left |= (square_bits)rest;
    }
    int64_t any_left = 0;
    for (int f = 0; f < n_folds; f++) {
        parts[f] = 0;
        for (int j = 0; j < SQUARES_LANES; j++)
            parts[f] += fold[f][j] - start[f];
    }
    for (int j = 0; j < SQUARES_LANES; j++)
        any_left |= left[j];
    return any_left != 0;
}

// kernels.squares for f32 and bf16. Three folds hold all squares of numbers down to 2^-38 of the
// largest of these, five down to 2^-79, fourteen those of any two floats: bits 2^-298 to 2^256.
static inline __attribute__((always_inline)) int exact_squares(dtype dt, int64_t n,
        const void *values, double *parts) {
    const uint32_t most = largest_bits(dt, n, values);
    const int exponent = (int)(most >> 23);
    if (most == 0 || exponent == 0xFF) {
        parts[0] = most == 0 ? 0 : (double)INFINITY;
        return 1;
    }
    const int bound = 2 * (exponent - 126);
    if (!fold_squares(dt, n, values, bound, FEW_FOLDS, parts)) return FEW_FOLDS;
    if (!fold_squares(dt, n, values, bound, MORE_FOLDS, parts)) return MORE_FOLDS;
    fold_squares(dt, n, values, bound, ALL_FOLDS, parts);
    return ALL_FOLDS;
}
