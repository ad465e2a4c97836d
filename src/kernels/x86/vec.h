// Vectors of float as the compiler's flags allow: 8 elements by AVX2, 16 by AVX-512. Loads and
// stores of part of a vector touch only the first n elements. Everything here is inlined, so that a
// constant n == WIDTH, dtype or arithmetic costs nothing.
#pragma once
#ifdef __AVX512F__
#include "kernels/x86/vec_avx512.h"
#else
#include "kernels/x86/vec_avx2.h"
#endif

#include "base/dtype.h"

// Runs the statements after `n` for each vector of [0, n): j is the index of its first element, k
// the number of elements (the constant WIDTH but for the last, partial vector).
#define FOR_VECTORS(j, k, n, ...)                                                                  \
    do {                                                                                           \
        int64_t j = 0;                                                                             \
        for (; j + WIDTH <= (n); j += WIDTH) {                                                     \
            const int k = WIDTH;                                                                   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        if (j < (n)) {                                                                             \
            const int k = (int)((n)-j);                                                            \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

// n elements of type dt (f32 or bf16) from index i, as float.
INLINE vec v_load_as(dtype dt, const void *p, int64_t i, int n) {
    return dt == DT_BF16 ? v_load_bf16((const uint16_t *)p + i, n)
                         : v_load((const float *)p + i, n);
}
INLINE void v_store_as(dtype dt, void *p, int64_t i, vec x, int n) {
    if (dt == DT_BF16)
        v_store_bf16((uint16_t *)p + i, x, n);
    else
        v_store((float *)p + i, x, n);
}
// x as it would be read back after v_store_as.
INLINE vec v_rounded_as(dtype dt, vec x) {
    return dt == DT_BF16 ? v_rounded_bf16(x) : x;
}

// exp(x) within 2 units in the last place on [-87, 88]; 0 below, exp(88) above; NaN stays.
// r = x - n ln 2 in two steps, then the Taylor polynomial of degree 6 on |r| <= ln 2 / 2, whose
// error there, r^7/7! = 1.2e-7 relative, is one unit.
INLINE vec v_exp(vec x) {
    const vec inside = v_min(v_set(88.0f), v_max(v_set(-87.0f), x)); // operand order keeps NaN
    const vec n = v_nearest(v_mul(inside, v_set(1.44269504f)));
    vec r = v_fnma(n, v_set(0.693359375f), inside);
    r = v_fnma(n, v_set(-2.12194440e-4f), r);
    vec p = v_set(1.0f / 720);
    p = v_fma(p, r, v_set(1.0f / 120));
    p = v_fma(p, r, v_set(1.0f / 24));
    p = v_fma(p, r, v_set(1.0f / 6));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(v_mul(p, r), r, r);
    return v_zero_below(v_scale2(v_add(p, v_set(1)), n), x, -87.0f);
}

// 2^x within 4 units in the last place for x <= 127; 0 below -126 (AVX-512: below -149); NaN stays.
// On |r| <= 1/2 the minimax polynomial of degree 5 has a relative error of 7.5e-8.
INLINE vec v_exp2(vec x) {
    const vec inside = v_max(v_set(WIDTH == 16 ? -200.0f : -126.0f), x); // operand order keeps NaN
    const vec n = v_nearest(inside), r = v_sub(inside, n);
    vec p = v_set(1.3276472e-3f);
    p = v_fma(p, r, v_set(9.675541e-3f));
    p = v_fma(p, r, v_set(5.550713e-2f));
    p = v_fma(p, r, v_set(2.402212e-1f));
    p = v_fma(p, r, v_set(6.9314694e-1f));
    p = v_scale2(v_fma(p, r, v_set(1.0000001f)), n);
    return WIDTH == 16 ? p : v_zero_below(p, x, -126.0f); // v_scale2 of AVX-512 takes any n
}

// Transposes 8 x 8 words.
INLINE void transpose8(__m256 r[8]) {
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
