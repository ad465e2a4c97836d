// Blocks of 8 x 8 words that are transposed in registers, by AVX. Included by vec_avx2.h.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include "kernels/levels/inline.h"

enum { SQUARE = 8 };
typedef __m256 square_row;

INLINE square_row square_load(const void *words) {
    return _mm256_loadu_ps((const float *)words);
}
INLINE square_row square_load_bf16(const uint16_t *p) { // widened
    const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
INLINE void square_store(uint32_t *p, square_row row) {
    _mm256_storeu_ps((float *)(void *)p, row);
}
// Word j of row i becomes word i of row j.
INLINE void transpose(square_row r[SQUARE]) {
    __m256 t[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xEE);
        r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xEE);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}
