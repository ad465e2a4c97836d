// vec of 16 floats, for files compiled with AVX-512. Included by vec.h, which says what is common.
#pragma once
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/levels/transpose_avx512.h"

typedef __m512 vec;
typedef vec join_function(vec a, vec b);
enum { WIDTH = 16, REGISTERS = 32 };

INLINE vec v_set(float x) {
    return _mm512_set1_ps(x);
}
INLINE vec v_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}
INLINE vec v_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}
INLINE vec v_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}
INLINE vec v_div(vec a, vec b) {
    return _mm512_div_ps(a, b);
}
INLINE vec v_max(vec a, vec b) { // b where one is NaN
    return _mm512_max_ps(a, b);
}
INLINE vec v_min(vec a, vec b) {
    return _mm512_min_ps(a, b);
}
INLINE vec v_sqrt(vec a) {
    return _mm512_sqrt_ps(a);
}
INLINE vec v_fma(vec a, vec b, vec c) { // a b + c
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vec v_fnma(vec a, vec b, vec c) { // c - a b
    return _mm512_fnmadd_ps(a, b, c);
}
INLINE float v_sum(vec a) { // in halves: element i and i + 8, then i + 4, i + 2, i + 1
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
// v_sum or v_top (join: v_add or v_max) of each of 16 vectors, in the same order. Each step reduces
// two vectors to one: each part of the result holds the reduced halves of the first vector, then
// those of the second.
INLINE vec v_joins(join_function *join, const vec x[16]) {
    vec half[8], quarter[4], pair[2];
    // Places x[i] so that its sum ends at position i.
    for (int i = 0; i < 8; i++) {
        const vec a = x[i % 2 * 8 + i / 2], b = x[i % 2 * 8 + 4 + i / 2];
        half[i] = join(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    }
    for (int i = 0; i < 4; i++) {
        const vec a = half[2 * i], b = half[2 * i + 1];
        quarter[i] = join(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
    }
    for (int i = 0; i < 2; i++) {
        const __m512d a = _mm512_castps_pd(quarter[2 * i]),
                      b = _mm512_castps_pd(quarter[2 * i + 1]);
        pair[i] = join(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    return join(_mm512_shuffle_ps(pair[0], pair[1], 0x88),
            _mm512_shuffle_ps(pair[0], pair[1], 0xDD));
}
INLINE float v_top(vec a) {
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
INLINE float v_first(vec a) {
    return _mm512_cvtss_f32(a);
}
INLINE vec v_nearest(vec x) { // the nearest whole number
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vec v_scale2(vec x, vec n) { // x * 2^n; n in [-126, 127]
    return _mm512_scalef_ps(x, n);
}
// x - floor(x), rounded down: below 1. 0 of what is infinite, NaN of NaN.
INLINE vec v_fraction(vec x) {
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
INLINE vec v_scale2_floor(vec x, vec n) { // x 2^floor(n), rounded once; any n
    return _mm512_scalef_ps(x, n);
}
INLINE bool v_all_below(vec x, float limit) {
    return _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ) == 0;
}
INLINE vec v_zero_below(vec result, vec x, float limit) { // 0 where x < limit, else result
    return _mm512_mask_mov_ps(result, _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_LT_OQ),
            _mm512_setzero_ps());
}

INLINE __mmask16 v_mask(int n) {
    return (__mmask16)((1u << n) - 1);
}
INLINE vec v_load(const float *p, int n) {
    return n == WIDTH ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(v_mask(n), p);
}
INLINE void v_store(float *p, vec x, int n) {
    if (n == WIDTH)
        _mm512_storeu_ps(p, x);
    else
        _mm512_mask_storeu_ps(p, v_mask(n), x);
}

INLINE vec v_load_bf16(const uint16_t *p, int n) {
    const __m256i half = n == WIDTH ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                                    : _mm256_maskz_loadu_epi16(v_mask(n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
INLINE vec v_load_i8(const unsigned char *p) { // WIDTH bytes with sign
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
// 2 WIDTH elements: those at even places and those at odd ones.
INLINE void v_load_bf16_pairs(const uint16_t *p, vec *even, vec *odd) {
    const __m512i both = _mm512_loadu_si512(p);
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xFFFF0000)));
}
// Rounds to nearest even: in the upper half of each element, the lower one is not cleared.
INLINE __m512i v_bf16_above(vec x) {
    const __m512i bits = _mm512_castps_si512(x), half = _mm512_set1_epi32(0x7FFF);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000)),
                    nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i sum = _mm512_add_epi32(bits, half);
    sum = _mm512_mask_add_epi32(sum, odd, bits, _mm512_set1_epi32(0x8000));
    return _mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x400000));
}
// The instruction takes denormal numbers as 0. Beside tiles, whose bits are those of any processor,
// it is left for where there are none.
INLINE __m256i v_to_bf16(vec x) {
#if defined __AMX_BF16__ || defined __AMXBF16__
    enum { DENORMAL = 0x20 };
    if (__builtin_expect(_mm512_fpclass_ps_mask(x, DENORMAL) == 0, 1))
        return (__m256i)_mm512_cvtneps_pbh(x);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(v_bf16_above(x), 16));
#elif defined __AVX512BF16__
    return (__m256i)_mm512_cvtneps_pbh(x);
#else
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(v_bf16_above(x), 16));
#endif
}
INLINE void v_store_bf16(uint16_t *p, vec x, int n) {
    if (n == WIDTH)
        _mm256_storeu_si256((__m256i *)(void *)p, v_to_bf16(x));
    else
        _mm256_mask_storeu_epi16(p, v_mask(n), v_to_bf16(x));
}
// Stores 32 bf16: of 16 values those that 32 nibbles count, the lower or the upper halves of bytes.
INLINE void v_store_bf16_of(const vec values[1], const unsigned char *q, bool upper, uint16_t *p) {
    const __m512i words =
            _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)q));
    const __m512i which =
            upper ? _mm512_srli_epi16(words, 4) : _mm512_and_si512(words, _mm512_set1_epi16(15));
    _mm512_storeu_si512(p,
            _mm512_permutexvar_epi16(which, _mm512_castsi256_si512(v_to_bf16(values[0]))));
}
// Returns the nearest bf16, as a float.
INLINE vec v_rounded_bf16(vec x) {
#ifdef __AVX512BF16__
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v_to_bf16(x)), 16));
#else
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000);
    return _mm512_castsi512_ps(_mm512_and_si512(v_bf16_above(x), upper));
#endif
}

// Words of two bf16, rounded to nearest, ties away from 0: elements of `low` in the lower half.
INLINE vec v_pairs(vec low, vec high) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xFFFF0000),
                  l = _mm512_add_epi32(_mm512_castps_si512(low), half),
                  h = _mm512_add_epi32(_mm512_castps_si512(high), half);
    return _mm512_castsi512_ps(
            _mm512_ternarylogic_epi32(_mm512_srli_epi32(l, 16), h, upper, 0xF8)); // l | h & upper
}

// --- 32-bit words without sign
typedef __m512i ints;

INLINE ints i_set(uint32_t x) {
    return _mm512_set1_epi32((int)x);
}
INLINE ints i_count(uint32_t x) { // x, x + 1, ...
    return _mm512_add_epi32(i_set(x),
            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
INLINE ints i_xor(ints a, ints b) {
    return _mm512_xor_si512(a, b);
}
INLINE ints i_mul(ints a, uint32_t by, ints *high) { // the low halves of the products
    const ints m = i_set(by), even = _mm512_mul_epu32(a, m),
               odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), m);
    *high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
    return _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}
INLINE ints i_add(ints a, ints b) {
    return _mm512_add_epi32(a, b);
}
INLINE ints i_low(ints a, uint32_t by) { // the low halves of the products alone
    return _mm512_mullo_epi32(a, i_set(by));
}
INLINE ints i_and(ints a, ints b) {
    return _mm512_and_si512(a, b);
}
#define i_right(a, bits) _mm512_srli_epi32(a, bits)
INLINE ints i_load_u8(const unsigned char *p) { // WIDTH bytes
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE vec v_of(ints a) { // as floats; below 2^24
    return _mm512_cvtepi32_ps(a);
}
// Rounds by the lower 16 bits of each element, as f32_to_bf16_by.
INLINE void v_store_bf16_by(uint16_t *p, vec x, ints by, int n) {
    const ints bits = _mm512_castps_si512(x), top = i_set(0x7F800000u),
               sum = i_add(bits, i_and(by, i_set(0xFFFF)));
    const __mmask16 rounds = _mm512_cmpneq_epi32_mask(i_and(bits, top), top) &
                             _mm512_cmpneq_epi32_mask(i_and(sum, top), top),
                    nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    ints out = _mm512_mask_mov_epi32(bits, rounds, sum);
    out = _mm512_mask_or_epi32(out, nan, out, i_set(0x400000));
    const __m256i half = _mm512_cvtepi32_epi16(i_right(out, 16));
    if (n == WIDTH)
        _mm256_storeu_si256((__m256i *)(void *)p, half);
    else
        _mm256_mask_storeu_epi16(p, v_mask(n), half);
}
INLINE vec v_if_at_least(ints a, ints limit, vec x) { // x where a >= limit, else 0
    return _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(a, limit), x);
}
// WIDTH values of type dt, past the caches, so that what was there is not fetched first; where they
// go begins on 64 bytes.
INLINE void v_store_past_caches(dtype dt, void *p, int64_t i, vec x) {
    if (dt == DT_BF16)
        _mm256_stream_si256((__m256i *)(void *)((uint16_t *)p + i), v_to_bf16(x));
    else
        _mm512_stream_ps((float *)p + i, x);
}
INLINE void v_past_caches_done(void) {
    _mm_sfence();
}
