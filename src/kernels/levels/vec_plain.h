// vec of 4 floats in plain C (GCC's vectors), for any processor; it defines the bits of the levels
// with vector instructions. On arm64 these vectors are NEON registers, and vec_neon.h provides the
// operations that C lacks. Included by vec.h, which describes the functions.
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "base/stochastic.h"
#include "kernels/levels/inline.h"

#ifdef __ARM_NEON
enum { WIDTH = 4, REGISTERS = 32 };
#else
enum { WIDTH = 4, REGISTERS = 16 };
#endif
typedef float vec __attribute__((vector_size(16)));
typedef vec join_function(vec a, vec b);
typedef uint32_t ints __attribute__((vector_size(16))); // 32-bit words without sign

INLINE ints i_of(vec x) { // the bits
    return (ints)x;
}
INLINE ints i_select(ints where, ints a, ints b) { // a where all bits are set, b where none is
    return (where & a) | (~where & b);
}
INLINE vec v_select(ints where, vec a, vec b) {
    return (vec)i_select(where, i_of(a), i_of(b));
}

INLINE vec v_set(float x) {
    return (vec){x, x, x, x};
}
INLINE vec v_add(vec a, vec b) {
    return a + b;
}
INLINE vec v_sub(vec a, vec b) {
    return a - b;
}
INLINE vec v_mul(vec a, vec b) {
    return a * b;
}
INLINE vec v_div(vec a, vec b) {
    return a / b;
}
INLINE vec v_max(vec a, vec b) { // b where one is NaN
    return v_select((ints)(a > b), a, b);
}
INLINE vec v_min(vec a, vec b) {
    return v_select((ints)(a < b), a, b);
}

#ifdef __ARM_NEON
#include "kernels/levels/vec_neon.h"
#else
INLINE vec v_sqrt(vec a) {
    for (int i = 0; i < WIDTH; i++)
        a[i] = sqrtf(a[i]);
    return a;
}
// a b + c, rounded once. Where the processor has no such instruction, one call for a vector:
// inlined, the calls of all sums of a register tile take a minute to compile.
#ifdef __FP_FAST_FMAF
INLINE
#else
static __attribute__((noinline))
#endif
vec v_fma(vec a, vec b, vec c) {
    for (int i = 0; i < WIDTH; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
INLINE vec v_load_bf16(const uint16_t *p, int n) {
    float part[WIDTH] = {0};
    for (int i = 0; i < n; i++)
        part[i] = bf16_to_f32(p[i]);
    return (vec){part[0], part[1], part[2], part[3]};
}
INLINE void v_store_bf16(uint16_t *p, vec x, int n) { // rounds to nearest even
    for (int i = 0; i < n; i++)
        p[i] = f32_to_bf16(x[i]);
}
INLINE vec v_rounded_bf16(vec x) { // the nearest bf16, as a float
    for (int i = 0; i < WIDTH; i++)
        x[i] = bf16_to_f32(f32_to_bf16(x[i]));
    return x;
}
#endif
// Stores 32 bf16: of 16 values those that 32 nibbles count, the lower or the upper halves of bytes.
INLINE void v_store_bf16_of(const vec values[4], const unsigned char *q, bool upper, uint16_t *p) {
    uint16_t rounded[16];
    for (int i = 0; i < 4; i++)
        v_store_bf16(rounded + i * WIDTH, values[i], WIDTH);
    for (int i = 0; i < 32; i++)
        p[i] = rounded[upper ? q[i] >> 4 : q[i] & 15];
}

INLINE vec v_fnma(vec a, vec b, vec c) { // c - a b
    return v_fma(-a, b, c);
}
INLINE float v_sum(vec a) { // in halves: element i and i + 2, then i + 1
    return (a[0] + a[2]) + (a[1] + a[3]);
}
// v_sum or v_top of 4 vectors, in the same order (see vec_avx512.h).
INLINE vec v_joins(join_function *join, const vec x[4]) {
    const vec a = join((vec){x[0][0], x[0][1], x[1][0], x[1][1]},
                      (vec){x[0][2], x[0][3], x[1][2], x[1][3]}),
              b = join((vec){x[2][0], x[2][1], x[3][0], x[3][1]},
                      (vec){x[2][2], x[2][3], x[3][2], x[3][3]});
    return join((vec){a[0], a[2], b[0], b[2]}, (vec){a[1], a[3], b[1], b[3]});
}
INLINE float v_top(vec a) { // as v_max: of the halves, then of the pair
    const float x = a[0] > a[2] ? a[0] : a[2], y = a[1] > a[3] ? a[1] : a[3];
    return x > y ? x : y;
}
INLINE float v_first(vec a) {
    return a[0];
}
INLINE vec v_nearest(vec x) { // the nearest whole number, |x| < 2^22
    const vec large = v_set(0x1.8p23f);
    return (x + large) - large;
}
INLINE vec v_scale2(vec x, vec n) {     // x * 2^n; n in [-126, 127]
    const vec large = v_set(0x1.8p23f); // whose last place counts ones
    const ints whole = i_of(n + large) - i_of(large);
    return x * (vec)((whole + 127) << 23);
}
// x - floor(x), rounded down: below 1. 0 of what is infinite, NaN of NaN.
INLINE vec v_fraction(vec x) {
    for (int i = 0; i < WIDTH; i++) {
        const double exact = (double)x[i] - floor((double)x[i]);
        float down = (float)exact;
        if ((double)down > exact) down = nextafterf(down, 0);
        x[i] = isinf(x[i]) ? 0 : down >= 1 ? 1 - 0x1p-24f : down;
    }
    return x;
}
INLINE vec v_scale2_floor(vec x, vec n) { // x 2^floor(n), rounded once; any n
    for (int i = 0; i < WIDTH; i++)
        if (!isnan(n[i])) x[i] = ldexpf(x[i], (int)floorf(fminf(fmaxf(n[i], -1000), 1000)));
    return x;
}
INLINE bool v_all_below(vec x, float limit) {
    const ints below = (ints)(x < v_set(limit));
    return below[0] & below[1] & below[2] & below[3] & 1;
}
INLINE vec v_zero_below(vec result, vec x, float limit) { // 0 where x < limit, else result
    return (vec)(i_of(result) & ~(ints)(x < v_set(limit)));
}

INLINE vec v_load(const float *p, int n) {
    float part[WIDTH] = {0};
    if (n == WIDTH)
        memcpy(part, p, sizeof part);
    else
        for (int i = 0; i < n; i++)
            part[i] = p[i];
    return (vec){part[0], part[1], part[2], part[3]};
}
INLINE void v_store(float *p, vec x, int n) {
    if (n == WIDTH)
        memcpy(p, &x, sizeof x);
    else
        for (int i = 0; i < n; i++)
            p[i] = x[i];
}

INLINE vec v_load_i8(const unsigned char *p) { // WIDTH bytes with sign
    int8_t part[WIDTH];
    memcpy(part, p, sizeof part);
    return (vec){(float)part[0], (float)part[1], (float)part[2], (float)part[3]};
}
// 2 WIDTH elements: those at even places and those at odd ones.
INLINE void v_load_bf16_pairs(const uint16_t *p, vec *even, vec *odd) {
    ints both;
    memcpy(&both, p, sizeof both); // the first of two in the lower half (little-endian)
    *even = (vec)(both << 16);
    *odd = (vec)(both & 0xFFFF0000u);
}

// --- 32-bit words without sign
INLINE ints i_set(uint32_t x) {
    return (ints){x, x, x, x};
}
INLINE ints i_count(uint32_t x) { // x, x + 1, ...
    return (ints){x, x + 1, x + 2, x + 3};
}
INLINE ints i_xor(ints a, ints b) {
    return a ^ b;
}
INLINE ints i_mul(ints a, uint32_t by, ints *high) { // the low halves of the products
    uint32_t part[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        part[i] = (uint32_t)((uint64_t)a[i] * by >> 32);
    *high = (ints){part[0], part[1], part[2], part[3]};
    return a * i_set(by);
}
INLINE ints i_add(ints a, ints b) {
    return a + b;
}
INLINE ints i_low(ints a, uint32_t by) { // the low halves of the products alone
    return a * i_set(by);
}
#define i_right(a, bits) ((a) >> (bits))
INLINE ints i_and(ints a, ints b) {
    return a & b;
}
INLINE ints i_load_u8(const unsigned char *p) { // WIDTH bytes
    return (ints){p[0], p[1], p[2], p[3]};
}
// Words of two bf16, rounded to nearest, ties away from 0: elements of `low` in the lower half.
INLINE vec v_pairs(vec low, vec high) {
    return (vec)((i_of(low) + 0x8000) >> 16 | ((i_of(high) + 0x8000) & 0xFFFF0000u));
}
INLINE vec v_of(ints a) { // as floats; below 2^24
    return (vec){(float)a[0], (float)a[1], (float)a[2], (float)a[3]};
}
// Rounds by the lower 16 bits of each element, as f32_to_bf16_by.
INLINE void v_store_bf16_by(uint16_t *p, vec x, ints by, int n) {
    for (int i = 0; i < n; i++)
        p[i] = f32_to_bf16_by(x[i], by[i]);
}
INLINE vec v_if_at_least(ints a, ints limit, vec x) { // x where a >= limit, else 0
    return (vec)(i_of(x) & (ints)(a >= limit));
}

// --- blocks of 4 x 4 words that are transposed in registers
enum { SQUARE = WIDTH };
typedef vec square_row;

INLINE square_row square_load(const void *words) {
    return v_load((const float *)words, SQUARE);
}
INLINE square_row square_load_bf16(const uint16_t *p) { // widened
    return v_load_bf16(p, SQUARE);
}
INLINE void square_store(uint32_t *p, square_row row) {
    v_store((float *)(void *)p, row, SQUARE);
}
// Word j of row i becomes word i of row j.
INLINE void transpose(square_row r[SQUARE]) {
    const vec a = r[0], b = r[1], c = r[2], d = r[3];
    for (int i = 0; i < SQUARE; i++)
        r[i] = (vec){a[i], b[i], c[i], d[i]};
}
INLINE void v_store_past_caches(dtype dt, void *p, int64_t i, vec x) {
    if (dt == DT_BF16)
        v_store_bf16((uint16_t *)p + i, x, WIDTH);
    else
        v_store((float *)p + i, x, WIDTH);
}
INLINE void v_past_caches_done(void) {}
