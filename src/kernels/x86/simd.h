// Vectors of float for the level that a file is compiled for: SIMD_LEVEL is 2 (AVX2 + FMA), 3
// (AVX-512) or 4 (AVX-512 with bf16). VN lanes each. Loads and stores of part of a vector touch
// only the first n lanes.
#pragma once
#include <immintrin.h>

#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

#if SIMD_LEVEL == 2
#define SIMD_NAME(x) x##_avx2
#elif SIMD_LEVEL == 3
#define SIMD_NAME(x) x##_avx512
#else
#define SIMD_NAME(x) x##_avx512_bf16
#endif

#if SIMD_LEVEL >= 3
typedef __m512 vf;
enum { VN = 16 };
INLINE vf v_set(float x) {
    return _mm512_set1_ps(x);
}
INLINE vf v_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
INLINE vf v_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
INLINE vf v_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
INLINE vf v_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
INLINE vf v_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
INLINE vf v_sqrt(vf a) {
    return _mm512_sqrt_ps(a);
}
INLINE vf v_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
} // a b + c
INLINE vf v_fnma(vf a, vf b, vf c) {
    return _mm512_fnmadd_ps(a, b, c);
} // c - a b
INLINE float v_sum(vf a) {
    return _mm512_reduce_add_ps(a);
}
INLINE float v_top(vf a) {
    return _mm512_reduce_max_ps(a);
}
INLINE __mmask16 v_mask(int n) {
    return (__mmask16)((1u << n) - 1);
}
INLINE vf v_load(const float *p, int n) {
    return n == VN ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(v_mask(n), p);
}
INLINE void v_store(float *p, vf x, int n) {
    if (n == VN)
        _mm512_storeu_ps(p, x);
    else
        _mm512_mask_storeu_ps(p, v_mask(n), x);
}
INLINE vf v_load_bf16(const uint16_t *p, int n) {
    __m256i h = n == VN ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                        : _mm256_maskz_loadu_epi16(v_mask(n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
INLINE __m256i v_to_bf16(vf x) {
#if SIMD_LEVEL == 4
    return (__m256i)_mm512_cvtneps_pbh(x);
#else
    __m512i u = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
#endif
}
INLINE void v_store_bf16(uint16_t *p, vf x, int n) {
    if (n == VN)
        _mm256_storeu_si256((__m256i *)(void *)p, v_to_bf16(x));
    else
        _mm256_mask_storeu_epi16(p, v_mask(n), v_to_bf16(x));
}
INLINE vf v_scale2(vf x, vf n) {
    return _mm512_scalef_ps(x, n);
} // x * 2^n
INLINE vf v_round(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vf v_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
#else
typedef __m256 vf;
enum { VN = 8 };
INLINE vf v_set(float x) {
    return _mm256_set1_ps(x);
}
INLINE vf v_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
INLINE vf v_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
INLINE vf v_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
INLINE vf v_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
INLINE vf v_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
INLINE vf v_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
INLINE vf v_sqrt(vf a) {
    return _mm256_sqrt_ps(a);
}
INLINE vf v_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vf v_fnma(vf a, vf b, vf c) {
    return _mm256_fnmadd_ps(a, b, c);
}
INLINE float v_sum(vf a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
INLINE float v_top(vf a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
INLINE __m256i v_mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vf v_load(const float *p, int n) {
    return n == VN ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, v_mask(n));
}
INLINE void v_store(float *p, vf x, int n) {
    if (n == VN)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, v_mask(n), x);
}
INLINE vf v_load_bf16(const uint16_t *p, int n) {
    __m128i h;
    if (n == VN) {
        h = _mm_loadu_si128((const __m128i *)(const void *)p);
    } else {
        uint16_t part[VN] = {0};
        for (int i = 0; i < n; i++)
            part[i] = p[i];
        h = _mm_loadu_si128((const __m128i *)(const void *)part);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
INLINE void v_store_bf16(uint16_t *p, vf x, int n) {
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
    r = _mm256_srli_epi32(r, 16);
    __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
    if (n == VN) {
        _mm_storeu_si128((__m128i *)(void *)p, h);
    } else {
        uint16_t part[VN];
        _mm_storeu_si128((__m128i *)(void *)part, h);
        for (int i = 0; i < n; i++)
            p[i] = part[i];
    }
}
INLINE vf v_scale2(vf x, vf n) { // n in [-126, 127]
    __m256i e =
            _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(x, _mm256_castsi256_ps(e));
}
INLINE vf v_round(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#endif

// exp(x) within 2 units in the last place on [-87, 88]; 0 below, largest finite above; NaN stays.
// r = x - n ln 2 in two steps, then the Taylor polynomial of degree 6 on |r| <= ln 2 / 2, whose
// error there, r^7/7! = 1.2e-7 relative, is one unit.
INLINE vf v_exp(vf x) {
    vf inside = v_min(v_set(88.0f), v_max(v_set(-87.0f), x)); // operand order keeps NaN
    vf n = v_round(v_mul(inside, v_set(1.44269504f)));
    vf r = v_fnma(n, v_set(0.693359375f), inside);
    r = v_fnma(n, v_set(-2.12194440e-4f), r);
    vf p = v_set(1.0f / 720);
    p = v_fma(p, r, v_set(1.0f / 120));
    p = v_fma(p, r, v_set(1.0f / 24));
    p = v_fma(p, r, v_set(1.0f / 6));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(v_mul(p, r), r, r);
    p = v_scale2(v_add(p, v_set(1)), n);
#if SIMD_LEVEL >= 3
    return _mm512_mask_mov_ps(p, _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_LT_OQ),
            _mm512_setzero_ps());
#else
    return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_LT_OQ), p);
#endif
}

// 2^x within 4 units in the last place for x <= 127; 0 below -126 (AVX-512: below -149); NaN stays.
// On |r| <= 1/2 the minimax polynomial of degree 5 has a relative error of 7.5e-8.
INLINE vf v_exp2(vf x) {
    vf inside = v_max(v_set(SIMD_LEVEL >= 3 ? -200.0f : -126.0f), x); // operand order keeps NaN
    vf n = v_round(inside), r = v_sub(inside, n);
    vf p = v_set(1.3276472e-3f);
    p = v_fma(p, r, v_set(9.675541e-3f));
    p = v_fma(p, r, v_set(5.550713e-2f));
    p = v_fma(p, r, v_set(2.402212e-1f));
    p = v_fma(p, r, v_set(6.9314694e-1f));
    p = v_scale2(v_fma(p, r, v_set(1.0000001f)), n);
#if SIMD_LEVEL >= 3
    return p;
#else
    return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_LT_OQ), p);
#endif
}

INLINE vf ld(dtype dt, const void *p, int64_t i, int n) {
    return dt == DT_BF16 ? v_load_bf16((const uint16_t *)p + i, n)
                         : v_load((const float *)p + i, n);
}
INLINE void st(dtype dt, void *p, int64_t i, vf x, int n) {
    if (dt == DT_BF16)
        v_store_bf16((uint16_t *)p + i, x, n);
    else
        v_store((float *)p + i, x, n);
}
// The value as it will be read back.
INLINE vf rounded(dtype dt, vf x) {
    if (dt != DT_BF16) return x;
#if SIMD_LEVEL >= 3
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v_to_bf16(x)), 16));
#else
    uint16_t t[VN];
    v_store_bf16(t, x, VN);
    return v_load_bf16(t, VN);
#endif
}

// Runs `body` over [0, n) with the index j and the number of lanes k.
#define VLOOP(j, k, n, ...)                                                                        \
    do {                                                                                           \
        int64_t j = 0;                                                                             \
        for (; j + VN <= (n); j += VN) {                                                           \
            const int k = VN;                                                                      \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        if (j < (n)) {                                                                             \
            const int k = (int)((n)-j);                                                            \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

INLINE int64_t round_up(int64_t n, int64_t m) {
    return (n + m - 1) / m * m;
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

void SIMD_NAME(gemm)(const gemm_shape *s, const void *a, const void *b, void *c, void *scratch);
void SIMD_NAME(attention)(const attention_args *a, int64_t unit, void *scratch);
void SIMD_NAME(attention_grad)(const attention_args *a, int64_t unit, void *scratch);
void SIMD_NAME(attention_grad_sum)(const attention_args *a, int64_t unit);
