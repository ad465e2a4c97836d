// Included by gemm_simd.c, once per arithmetic (each_arithmetic.h).
//
// Every sum over k is formed in the same order wherever an element lies in its tile, so how a
// product is cut changes no bit.

INLINE void PATH(multiply)(int64_t words, const uint32_t *a, int64_t ars, int64_t aps,
        const uint32_t *b, vf sum[MR][NV]) {
    for (int64_t k = 0; k < words; k++) {
        PATH(vw) bv[NV];
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++)
            bv[j] = PATH(load_words)(b + k * NR + j * VN);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
            for (int j = 0; j < NV; j++)
                sum[i][j] = PATH(mac)(sum[i][j], a[i * ars + k * aps], bv[j]);
    }
}

// MR rows of a times a panel of b. Word k of row i of a: a[i * ars + k * aps].
static void PATH(register_tile)(int64_t words, const uint32_t *a, int64_t ars, int64_t aps,
        const uint32_t *b, const place *p, lines *ahead) {
    vf sum[MR][NV];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++)
            sum[i][j] = v_set(0);
    for (int64_t k = 0; k < words; k += STEP) {
        const int64_t row = k / STEP; // of c, for the end of this tile
        if (row < MR && p->from)
            fetch((const char *)(p->from + row * p->ld_from), NR * 4);
        else if (row < MR)
            fetch((const char *)p->to + row * p->ld_to * dtype_bytes(p->dt),
                    NR * dtype_bytes(p->dt));
        fetch_some(ahead);
        PATH(multiply)
        (words - k < STEP ? words - k : STEP, a + k * aps, ars, aps, b + k * NR, sum);
    }
    if (p->from)
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
            for (int j = 0; j < NV; j++)
                sum[i][j] = v_add(v_load(p->from + i * p->ld_from + j * VN, VN), sum[i][j]);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 3
        for (int j = 0; j < NV; j++)
            st(p->dt, p->to, i * p->ld_to + j * VN, sum[i][j], VN);
}

// The same where only part of the tile exists: by way of a whole one.
static void PATH(edge_tile)(int64_t rows, int64_t cols, int64_t words, const uint32_t *a,
        int64_t ars, int64_t aps, const uint32_t *b, const place *p, lines *ahead) {
    float whole[MR * NR] = {0};
    for (int64_t i = 0; i < rows && p->from; i++)
        memcpy(whole + i * NR, p->from + i * p->ld_from, sizeof *whole * (size_t)cols);
    const place own = {p->from ? whole : NULL, NR, DT_F32, whole, NR};
    PATH(register_tile)(words, a, ars, aps, b, &own, ahead);
    for (int64_t i = 0; i < rows; i++)
        VLOOP(j, k, cols,
                { st(p->dt, p->to, i * p->ld_to + j, v_load(whole + i * NR + j, k), k); });
}

// VN words that cross the rows of storage: element j of the row(s) at + j. n of them exist.
INLINE void PATH(across)(dtype dt, const void *src, int64_t at, int64_t ld_src, bool whole, int n,
        uint32_t *dst) {
#if BF16_DOT
    (void)dt;
    const uint16_t *r = (const uint16_t *)src + at;
    const __mmask16 m = v_mask(n);
    __m512i lo = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, r));
    __m512i hi = _mm512_setzero_si512(); // no row follows the last
    if (whole) hi = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, r + ld_src));
    _mm512_storeu_si512(dst, _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16)));
#else
    (void)ld_src, (void)whole;
    v_store((float *)(void *)dst, n > 0 ? ld(dt, src, at, n) : v_set(0), VN);
#endif
}

// Stored [k, n]: panels of `panel` columns (a multiple of VN), each [words][panel]. Columns that do
// not exist are 0.
INLINE void PATH(pack_across)(const int panel, dtype dt, const void *src, int64_t ld_src, int64_t n,
        int64_t k, bool ahead, uint32_t *dst) {
    const int64_t es = dtype_bytes(dt), words = (k + PATH(PER_WORD) - 1) / PATH(PER_WORD);
    for (int64_t w = 0; w < words; w++) {
        const int64_t row = w * PATH(PER_WORD), later = row + AHEAD * PATH(PER_WORD);
        const bool whole = row + PATH(PER_WORD) <= k;
        for (int64_t r = later; ahead && r < later + PATH(PER_WORD) && r < k; r++)
            fetch((const char *)src + r * ld_src * es, n * es);
        int64_t j = 0;
        for (; j + panel <= n; j += panel)
            for (int l = 0; l < panel; l += VN)
                PATH(across)
        (dt, src, row * ld_src + j + l, ld_src, whole, VN, dst + j * words + w * panel + l);
        for (int l = 0; j < n && l < panel; l += VN) {
            const int64_t left = n - j - l, have = left < 0 ? 0 : left < VN ? left : VN;
            PATH(across)
            (dt, src, row * ld_src + j + l, ld_src, whole, (int)have,
                    dst + j * words + w * panel + l);
        }
    }
}

INLINE __m256 PATH(eight_words)(dtype dt, const void *src, int64_t at) {
#if BF16_DOT
    (void)dt;
    return _mm256_loadu_ps((const float *)(const void *)((const uint16_t *)src + at));
#else
    if (dt == DT_F32) return _mm256_loadu_ps((const float *)src + at);
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)src + at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
#endif
}

// Stored [n, k], n at most NR: one panel [words][NR]. Columns that do not exist are 0.
static void PATH(pack_transposed)(dtype dt, const void *src, int64_t ld_src, int64_t n, int64_t k,
        uint32_t *dst) {
    const int64_t words = (k + PATH(PER_WORD) - 1) / PATH(PER_WORD);
    for (int64_t r = 0; r < NR; r += 8) {
        int64_t done = 0; // words of these eight rows
        for (; r + 8 <= n && (done + 8) * PATH(PER_WORD) <= k; done += 8) {
            __m256 v[8];
            for (int i = 0; i < 8; i++)
                v[i] = PATH(eight_words)(dt, src, (r + i) * ld_src + done * PATH(PER_WORD));
            transpose8(v);
            for (int i = 0; i < 8; i++)
                _mm256_storeu_ps((float *)(void *)(dst + (done + i) * NR + r), v[i]);
        }
        for (int64_t i = r; i < r + 8; i++)
            for (int64_t w = done; w < words; w++) {
                const int64_t at = w * PATH(PER_WORD);
                uint32_t *to = dst + w * NR + i;
                if (i < n) PATH(row_words)
                (dt, src, i * ld_src + at, k - at < PATH(PER_WORD) ? k - at : PATH(PER_WORD), to);
                else *to = 0;
            }
    }
}

static void PATH(pack_a)(const gemm_shape *s, const char *a, int64_t k, int64_t ld, uint32_t *dst) {
    if (s->ta)
        PATH(pack_across)(ACROSS, s->in, a, s->lda, s->m, k, true, dst);
    else
        PATH(take_rows)(s->in, a, 0, s->lda, s->m, k, dst, ld);
}

// Columns j .. j + n of b.
static void PATH(pack_b)(const gemm_shape *s, const char *b, int64_t j, int64_t n, int64_t k,
        uint32_t *dst) {
    const char *src = b + dtype_bytes(s->in) * (s->tb ? j * s->ldb : j);
    if (s->tb)
        PATH(pack_transposed)(s->in, src, s->ldb, n, k, dst);
    else
        PATH(pack_across)(NR, s->in, src, s->ldb, n, k, j == 0, dst);
}

// The n columns (0: none) that pack_b takes next, fetched by n_tiles register tiles.
static lines PATH(next_b)(const gemm_shape *s, const char *b, int64_t j, int64_t n, int64_t k,
        int64_t n_tiles) {
    const int64_t es = dtype_bytes(s->in), words = (k + PATH(PER_WORD) - 1) / PATH(PER_WORD);
    const int64_t rows = n == 0 ? 0 : s->tb ? n : k;
    return lines_of(b + es * (s->tb ? j * s->ldb : j), s->ldb * es, es * (s->tb ? k : n), rows,
            n_tiles * (words / STEP + 1));
}

static void PATH(gemm)(const gemm_shape *s, const char *a, const char *b, char *c, void *scratch) {
    const int64_t all = (s->k + PATH(PER_WORD) - 1) / PATH(PER_WORD);
    const int64_t n_blocks = (all + GEMM_WORDS - 1) / GEMM_WORDS;
    const int64_t most = (all + n_blocks - 1) / n_blocks, ld_a = most + GEMM_PAD;
    const int64_t es = dtype_bytes(s->in), os = dtype_bytes(s->out);
    uint32_t *pa = scratch, *pb = pa + round_up(s->m, ACROSS) * ld_a;
    float *aside = (float *)(void *)(pb + NR * most); // sums that end as bf16, [m, n]
    for (int64_t k0 = 0; k0 < s->k; k0 += most * PATH(PER_WORD)) {
        const int64_t left = s->k - k0,
                      k = left < most * PATH(PER_WORD) ? left : most * PATH(PER_WORD);
        const int64_t words = (k + PATH(PER_WORD) - 1) / PATH(PER_WORD);
        const bool narrow = s->out == DT_BF16, last = k == left;
        const char *ak = a + es * (s->ta ? k0 * s->lda : k0);
        const char *bk = b + es * (s->tb ? k0 : k0 * s->ldb);
        PATH(pack_a)(s, ak, k, ld_a, pa);
        for (int64_t j = 0; j < s->n; j += NR) {
            const int64_t cols = s->n - j < NR ? s->n - j : NR;
            const int64_t next = s->n - j - cols < NR ? s->n - j - cols : NR;
            PATH(pack_b)(s, bk, j, cols, k, pb);
            lines ahead = PATH(next_b)(s, bk, j + NR, next, k, (s->m + MR - 1) / MR);
            for (int64_t i = 0; i < s->m; i += MR) {
                float *sum = narrow ? aside + i * s->n + j : (float *)(void *)c + i * s->ldc + j;
                const int64_t ld_sum = narrow ? s->n : s->ldc;
                const bool begun = k0 > 0 || s->accumulate;
                place p = {begun ? sum : NULL, ld_sum, DT_F32, sum, ld_sum};
                if (narrow && last)
                    p.dt = DT_BF16, p.to = c + (i * s->ldc + j) * os, p.ld_to = s->ldc;
                const uint32_t *ai =
                        s->ta ? pa + i / ACROSS * ACROSS * words + i % ACROSS : pa + i * ld_a;
                const int64_t ars = s->ta ? 1 : ld_a, aps = s->ta ? ACROSS : 1;
                const int64_t rows = s->m - i < MR ? s->m - i : MR;
                if (rows == MR && cols == NR)
                    PATH(register_tile)(words, ai, ars, aps, pb, &p, &ahead);
                else
                    PATH(edge_tile)(rows, cols, words, ai, ars, aps, pb, &p, &ahead);
            }
        }
    }
}
