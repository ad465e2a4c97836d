// Blocks of 16 x 16 words that are transposed in registers, by AVX-512. Included by vec_avx512.h.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include "kernels/levels/inline.h"

enum { SQUARE = 16 };
typedef __m512 square_row;

INLINE square_row square_load(const void *words) {
    return _mm512_loadu_ps(words);
}
INLINE square_row square_load_bf16(const uint16_t *p) { // widened
    const __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
INLINE void square_store(uint32_t *p, square_row row) {
    _mm512_storeu_ps(p, row);
}
// Word j of row i becomes word i of row j.
INLINE void transpose(square_row r[SQUARE]) {
    __m512 transposed[SQUARE];
#pragma GCC unroll 4
    for (int i = 0; i < SQUARE;
            i += 4) { // blocks of 4 x 4: row 4 c + j has word j of block column c
        const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[i], r[i + 1])),
                      b = _mm512_castps_pd(_mm512_unpackhi_ps(r[i], r[i + 1])),
                      c = _mm512_castps_pd(_mm512_unpacklo_ps(r[i + 2], r[i + 3])),
                      d = _mm512_castps_pd(_mm512_unpackhi_ps(r[i + 2], r[i + 3]));
        transposed[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        transposed[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        transposed[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        transposed[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) { // then blocks themselves
        const __m512 a = _mm512_shuffle_f32x4(transposed[j], transposed[4 + j], 0x44),
                     b = _mm512_shuffle_f32x4(transposed[j], transposed[4 + j], 0xEE),
                     c = _mm512_shuffle_f32x4(transposed[8 + j], transposed[12 + j], 0x44),
                     d = _mm512_shuffle_f32x4(transposed[8 + j], transposed[12 + j], 0xEE);
        r[j] = _mm512_shuffle_f32x4(a, c, 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(a, c, 0xDD);
        r[8 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
        r[12 + j] = _mm512_shuffle_f32x4(b, d, 0xDD);
    }
}
