// Pairs of bf16 as words (words.h), for files compiled with AVX-512 BF16. The instruction adds both
// products to an fp32 sum, takes denormal numbers as 0 and rounds to nearest even.
#pragma once
#include "kernels/levels/words.h"

INLINE vec pair_mac(vec sum, uint32_t a, vec b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32((int)a),
            (__m512bh)_mm512_castps_si512(b));
}

INLINE void pair_along(const void *src, int64_t at, int64_t n, uint32_t *dst) {
    const uint16_t *x = (const uint16_t *)src + at;
    int64_t j = 0;
    for (; j + 32 <= n; j += 32)
        _mm512_storeu_si512(dst + j / 2, _mm512_loadu_si512(x + j));
    for (; j < n; j += 2)
        dst[j / 2] = x[j] | (j + 1 < n ? (uint32_t)x[j + 1] << 16 : 0);
}

INLINE square_row pair_square_along(const void *src, int64_t at) {
    return square_load((const uint16_t *)src + at);
}

// Words of 16 low and 16 high halves.
INLINE vec pairs_of(__m256i low, __m256i high) {
    const __m512i upper = _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16);
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_cvtepu16_epi32(low), upper));
}

INLINE vec pair_across(const void *src, int64_t at, int64_t ld, int64_t n_rows, int n) {
    const uint16_t *x = (const uint16_t *)src + at;
    const __mmask16 there = v_mask(n);
    __m256i low = _mm256_setzero_si256(), high = low;
    if (n_rows > 0) low = _mm256_maskz_loadu_epi16(there, x);
    if (n_rows > 1) high = _mm256_maskz_loadu_epi16(there, x + ld);
    return pairs_of(low, high);
}

INLINE void pair_put_across(uint32_t *dst, vec upper, vec lower) {
    store_words(dst, pairs_of(v_to_bf16(upper), v_to_bf16(lower)));
}

static const arithmetic pair_words = {
        .dt = DT_BF16,
        .per_word = 2,
        .mac = pair_mac,
        .along = pair_along,
        .square_along = pair_square_along,
        .across = pair_across,
        .put_across = pair_put_across,
};
