// vec of 8 floats, for files compiled with AVX2 and FMA. Included by vec.h, which says what is
// common.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include "kernels/levels/transpose_avx.h"

typedef __m256 vec;
typedef vec join_function(vec a, vec b);
enum { WIDTH = 8, REGISTERS = 16 };

INLINE vec v_set(float x) {
    return _mm256_set1_ps(x);
}
INLINE vec v_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}
INLINE vec v_sub(vec a, vec b) {
    return _mm256_sub_ps(a, b);
}
INLINE vec v_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
}
INLINE vec v_div(vec a, vec b) {
    return _mm256_div_ps(a, b);
}
INLINE vec v_max(vec a, vec b) { // b where one is NaN
    return _mm256_max_ps(a, b);
}
INLINE vec v_min(vec a, vec b) {
    return _mm256_min_ps(a, b);
}
INLINE vec v_sqrt(vec a) {
    return _mm256_sqrt_ps(a);
}
INLINE vec v_fma(vec a, vec b, vec c) { // a b + c
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vec v_fnma(vec a, vec b, vec c) { // c - a b
    return _mm256_fnmadd_ps(a, b, c);
}
INLINE float v_sum(vec a) { // in halves: element i and i + 4, then i + 2, i + 1
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
// v_sum or v_top of 8 vectors, in the same order (see vec_avx512.h).
INLINE vec v_joins(join_function *join, const vec x[8]) {
    vec half[4], pair[2];
    for (int i = 0; i < 4; i++)
        half[i] = join(_mm256_permute2f128_ps(x[i], x[i + 4], 0x20),
                _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
    for (int i = 0; i < 2; i++) {
        const __m256d a = _mm256_castps_pd(half[2 * i]), b = _mm256_castps_pd(half[2 * i + 1]);
        pair[i] = join(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return join(_mm256_shuffle_ps(pair[0], pair[1], 0x88),
            _mm256_shuffle_ps(pair[0], pair[1], 0xDD));
}
INLINE float v_top(vec a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
INLINE float v_first(vec a) {
    return _mm256_cvtss_f32(a);
}
INLINE vec v_nearest(vec x) { // the nearest whole number
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vec v_scale2(vec x, vec n) { // x * 2^n; n in [-126, 127]
    const __m256i exponent =
            _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(x, _mm256_castsi256_ps(exponent));
}
INLINE vec v_zero_below(vec result, vec x, float limit) { // 0 where x < limit, else result
    return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_LT_OQ), result);
}

INLINE __m256i v_mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vec v_load(const float *p, int n) {
    return n == WIDTH ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, v_mask(n));
}
INLINE void v_store(float *p, vec x, int n) {
    if (n == WIDTH)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, v_mask(n), x);
}

INLINE vec v_load_bf16(const uint16_t *p, int n) {
    __m128i half;
    if (n == WIDTH) {
        half = _mm_loadu_si128((const __m128i *)(const void *)p);
    } else {
        uint16_t part[WIDTH] = {0};
        for (int i = 0; i < n; i++)
            part[i] = p[i];
        half = _mm_loadu_si128((const __m128i *)(const void *)part);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
INLINE vec v_load_i8(const unsigned char *p) { // WIDTH bytes with sign
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
// 2 WIDTH elements: those at even places and those at odd ones.
INLINE void v_load_bf16_pairs(const uint16_t *p, vec *even, vec *odd) {
    const __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)p);
    *even = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    *odd = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xFFFF0000)));
}
// Returns the nearest bf16 (even in a tie) in the upper half of each element; the lower half is not
// cleared.
INLINE __m256i v_bf16_above(vec x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(sum, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)), nan);
}
// The upper halves of the elements.
INLINE void v_store_above(uint16_t *p, __m256i x, int n) {
    const __m256i low = _mm256_srli_epi32(x, 16);
    const __m128i half =
            _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    if (n == WIDTH) {
        _mm_storeu_si128((__m128i *)(void *)p, half);
    } else {
        uint16_t part[WIDTH];
        _mm_storeu_si128((__m128i *)(void *)part, half);
        for (int i = 0; i < n; i++)
            p[i] = part[i];
    }
}
INLINE void v_store_bf16(uint16_t *p, vec x, int n) {
    v_store_above(p, v_bf16_above(x), n);
}
// Stores 32 bf16: of 16 values those that 32 nibbles count, the lower or the upper halves of bytes.
INLINE void v_store_bf16_of(const vec values[2], const unsigned char *q, bool upper, uint16_t *p) {
    const __m256i first = _mm256_srli_epi32(v_bf16_above(values[0]), 16),
                  second = _mm256_srli_epi32(v_bf16_above(values[1]), 16),
                  words = _mm256_permute4x64_epi64(_mm256_packus_epi32(first, second), 0xD8);
    // The lower and the upper bytes of all values, in both halves of a register.
    const __m256i low_bytes = _mm256_and_si256(words, _mm256_set1_epi16(0xFF)),
                  high_bytes = _mm256_srli_epi16(words, 8),
                  of_low =
                          _mm256_permute4x64_epi64(_mm256_packus_epi16(low_bytes, low_bytes), 0xD8),
                  of_high = _mm256_permute4x64_epi64(_mm256_packus_epi16(high_bytes, high_bytes),
                          0xD8);
    __m256i which = _mm256_loadu_si256((const __m256i *)(const void *)q);
    if (upper) which = _mm256_srli_epi16(which, 4);
    // So that the halves of what is interleaved are in order.
    which = _mm256_permute4x64_epi64(_mm256_and_si256(which, _mm256_set1_epi8(15)), 0xD8);
    const __m256i low = _mm256_shuffle_epi8(of_low, which),
                  high = _mm256_shuffle_epi8(of_high, which);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_unpacklo_epi8(low, high));
    _mm256_storeu_si256((__m256i *)(void *)(p + 16), _mm256_unpackhi_epi8(low, high));
}
// Returns the nearest bf16, as a float.
INLINE vec v_rounded_bf16(vec x) {
    return _mm256_castsi256_ps(
            _mm256_and_si256(v_bf16_above(x), _mm256_set1_epi32((int)0xFFFF0000)));
}

// --- 32-bit words without sign
typedef __m256i ints;

INLINE ints i_set(uint32_t x) {
    return _mm256_set1_epi32((int)x);
}
INLINE ints i_count(uint32_t x) { // x, x + 1, ...
    return _mm256_add_epi32(i_set(x), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE ints i_xor(ints a, ints b) {
    return _mm256_xor_si256(a, b);
}
INLINE ints i_mul(ints a, uint32_t by, ints *high) { // the low halves of the products
    const ints m = i_set(by), even = _mm256_mul_epu32(a, m),
               odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
INLINE ints i_add(ints a, ints b) {
    return _mm256_add_epi32(a, b);
}
INLINE ints i_low(ints a, uint32_t by) { // the low halves of the products alone
    return _mm256_mullo_epi32(a, i_set(by));
}
INLINE ints i_and(ints a, ints b) {
    return _mm256_and_si256(a, b);
}
#define i_right(a, bits) _mm256_srli_epi32(a, bits)
INLINE ints i_load_u8(const unsigned char *p) { // WIDTH bytes
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
INLINE vec v_of(ints a) { // as floats; below 2^24
    return _mm256_cvtepi32_ps(a);
}
// Rounds by the lower 16 bits of each element, as f32_to_bf16_by.
INLINE void v_store_bf16_by(uint16_t *p, vec x, ints by, int n) {
    const ints bits = _mm256_castps_si256(x), top = i_set(0x7F800000u),
               sum = i_add(bits, i_and(by, i_set(0xFFFF)));
    const ints grown = _mm256_cmpeq_epi32(i_and(sum, top), top),
               infinite = _mm256_cmpeq_epi32(i_and(bits, top), top),
               nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const ints out = _mm256_blendv_epi8(sum, bits, _mm256_or_si256(grown, infinite));
    v_store_above(p, _mm256_or_si256(out, i_and(nan, i_set(0x400000))), n);
}
INLINE vec v_if_at_least(ints a, ints limit, vec x) { // x where a >= limit, else 0
    const ints kept = _mm256_cmpeq_epi32(_mm256_max_epu32(a, limit), a);
    return _mm256_and_ps(x, _mm256_castsi256_ps(kept));
}
