// Arithmetic on 32-bit words, a word being one float or two bf16 neighbours of the inner dimension
// of a product. Included once per arithmetic (each_arithmetic.h): BF16_DOT 0 multiplies floats
// (bf16 operands are widened on the way in), 1 pairs of bf16.
#if BF16_DOT
enum { PATH(PER_WORD) = 2 };
typedef __m512i PATH(vw);
INLINE vf PATH(mac)(vf c, uint32_t a, __m512i b) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
}
INLINE __m512i PATH(load_words)(const uint32_t *p) {
    return _mm512_loadu_si512(p);
}
#else
enum { PATH(PER_WORD) = 1 };
typedef vf PATH(vw);
INLINE vf PATH(mac)(vf c, uint32_t a, vf b) {
    float f;
    memcpy(&f, &a, 4);
    return v_fma(v_set(f), b, c);
}
INLINE vf PATH(load_words)(const uint32_t *p) {
    return v_load((const float *)(const void *)p, VN);
}
#endif

// n elements of a row as words; the half of a last word that is missing becomes 0.
INLINE void PATH(row_words)(dtype dt, const void *src, int64_t at, int64_t n, uint32_t *dst) {
#if BF16_DOT
    (void)dt;
    const uint16_t *x = (const uint16_t *)src + at;
    int64_t j = 0;
    for (; j + 32 <= n; j += 32)
        _mm512_storeu_si512(dst + j / 2, _mm512_loadu_si512(x + j));
    for (; j < n; j += 2)
        dst[j / 2] = x[j] | (j + 1 < n ? (uint32_t)x[j + 1] << 16 : 0);
#else
    float *out = (float *)(void *)dst;
    if (dt == DT_BF16)
        VLOOP(j, k, n, { v_store(out + j, ld(DT_BF16, src, at + j, k), k); });
    else
        VLOOP(j, k, n, { v_store(out + j, ld(DT_F32, src, at + j, k), k); });
#endif
}

// `rows` rows of n elements, `stride` apart, as rows of words ld_dst apart.
static void PATH(take_rows)(dtype dt, const void *src, int64_t at, int64_t stride, int64_t rows,
        int64_t n, uint32_t *dst, int64_t ld_dst) {
    for (int64_t r = 0; r < rows; r++)
        PATH(row_words)(dt, src, at + r * stride, n, dst + r * ld_dst);
}
