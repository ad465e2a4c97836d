// Included by attention_simd.c, once per arithmetic (each_arithmetic.h).
//
// Every product is C[m][n] (+)= sum over kk of A(m, kk) * B[kk][n], with kk counting words: A(m,
// kk) is the word at a[m * ars + kk * aps], B rows are vectors of words. So a row-major operand, a
// transposed one and a pair-interleaved one are the same code with other strides.

// One register tile: mr rows, nv vectors; mask_n lanes of the last vector exist in C.
INLINE void PATH(tile)(const int mr, const int nv, int64_t kk, const uint32_t *a, int64_t ars,
        int64_t aps, const uint32_t *b, int64_t ldb, float *c, int64_t ldc, bool add, int last_n) {
    vf acc[6][4];
#pragma GCC unroll 6
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[i][j] = add ? v_load(c + i * ldc + j * VN, j == nv - 1 ? last_n : VN) : v_set(0);
    for (int64_t k = 0; k < kk; k++) {
        PATH(vw) bv[4];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            bv[j] = PATH(load_words)(b + k * ldb + j * VN);
#pragma GCC unroll 6
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                acc[i][j] = PATH(mac)(acc[i][j], a[i * ars + k * aps], bv[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            v_store(c + i * ldc + j * VN, acc[i][j], j == nv - 1 ? last_n : VN);
}

#if SIMD_LEVEL >= 3
#define TILE_ROWS 6
#define TILE_VECS 4
#else
#define TILE_ROWS 4
#define TILE_VECS 3
#endif

#define TILE_CASE(r)                                                                               \
    case r:                                                                                        \
        PATH(tile)(r, nv, kk, a, ars, aps, b, ldb, c, ldc, add, last_n);                           \
        break;

INLINE void PATH(column)(const int nv, int64_t m, int64_t kk, const uint32_t *a, int64_t ars,
        int64_t aps, const uint32_t *b, int64_t ldb, float *c, int64_t ldc, bool add, int last_n) {
    for (; m >= TILE_ROWS; m -= TILE_ROWS, a += TILE_ROWS * ars, c += TILE_ROWS * ldc)
        PATH(tile)(TILE_ROWS, nv, kk, a, ars, aps, b, ldb, c, ldc, add, last_n);
    switch (m) {
        TILE_CASE(1)
        TILE_CASE(2)
        TILE_CASE(3)
#if SIMD_LEVEL >= 3
        TILE_CASE(4)
        TILE_CASE(5)
#endif
    default:
        break;
    }
}

// b must be readable to the next multiple of VN words after n.
static void PATH(product)(int64_t m, int64_t n, int64_t kk, const uint32_t *a, int64_t ars,
        int64_t aps, const uint32_t *b, int64_t ldb, float *c, int64_t ldc, bool add) {
    while (n > 0) {
        int64_t vecs = (n + VN - 1) / VN;
        if (vecs > TILE_VECS) vecs = TILE_VECS;
        const int64_t cols = n < vecs * VN ? n : vecs * VN;
        const int last_n = (int)(cols - (vecs - 1) * VN);
        switch (vecs) {
        case 1:
            PATH(column)(1, m, kk, a, ars, aps, b, ldb, c, ldc, add, last_n);
            break;
        case 2:
            PATH(column)(2, m, kk, a, ars, aps, b, ldb, c, ldc, add, last_n);
            break;
        case 3:
            PATH(column)(3, m, kk, a, ars, aps, b, ldb, c, ldc, add, last_n);
            break;
#if SIMD_LEVEL >= 3
        default:
            PATH(column)(4, m, kk, a, ars, aps, b, ldb, c, ldc, add, last_n);
            break;
#endif
        }
        n -= cols;
        b += cols;
        c += cols;
    }
}
#undef TILE_CASE
#undef TILE_ROWS
#undef TILE_VECS

// B operand whose inner dimension is the rows: floats as they are, bf16 with rows 2i and 2i + 1
// interleaved. `rows` words in take_rows' form, ld_rows apart; dst rows are ld_dst words. Missing
// rows (n to n_pad) and columns become 0.
static void PATH(inner_rows)(const uint32_t *rows, int64_t ld_rows, int64_t n, int64_t n_pad,
        int64_t d, uint32_t *dst, int64_t ld_dst) {
#if BF16_DOT
    for (int64_t i = 0; i < n_pad; i += 2) {
        const uint16_t *r0 = (const uint16_t *)(const void *)(rows + i * ld_rows);
        const uint16_t *r1 = (const uint16_t *)(const void *)(rows + (i + 1) * ld_rows);
        for (int64_t j = 0; j < ld_dst; j += LANES) {
            const int k = d - j >= LANES ? LANES : d > j ? (int)(d - j) : 0;
            const __mmask16 m0 = i < n ? v_mask(k) : 0, m1 = i + 1 < n ? v_mask(k) : 0;
            __m512i lo = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m0, r0 + j));
            __m512i hi = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m1, r1 + j));
            _mm512_storeu_si512(dst + i / 2 * ld_dst + j,
                    _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16)));
        }
    }
#else
    for (int64_t i = 0; i < n_pad; i++) {
        const int64_t k = i < n ? d : 0;
        memcpy(dst + i * ld_dst, rows + i * ld_rows, (size_t)k * 4);
        memset(dst + i * ld_dst + k, 0, (size_t)(ld_dst - k) * 4);
    }
#endif
}

// VN probabilities (or their gradients) as part of an A operand whose words run along the row.
INLINE void PATH(put_row)(uint32_t *dst, vf x) {
#if BF16_DOT
    _mm256_storeu_si256((__m256i *)(void *)dst, v_to_bf16(x));
#else
    v_store((float *)(void *)dst, x, VN);
#endif
}

#if BF16_DOT
// The same of two rows, words running down the rows.
INLINE void put_column(uint32_t *dst, vf upper, vf lower) {
    __m512i a = _mm512_cvtepu16_epi32(v_to_bf16(upper));
    __m512i b = _mm512_cvtepu16_epi32(v_to_bf16(lower));
    _mm512_storeu_si512(dst, _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
}
#endif

// First key that each of the block's queries sees.
static int64_t PATH(first_key)(const attention_args *a, int64_t t) {
    return t - a->position[t];
}

// --- forward: one group of query heads, BLOCK queries
static void PATH(softmax_block)(const attention_args *a, int64_t q0, int64_t k0, int64_t n_q,
        int64_t rep, float *s, uint32_t *p, float *o, int64_t ld_o, float *max, float *sum) {
    enum { WORDS = BLOCK / PATH(PER_WORD) };
    const float scale = LOG2_E / sqrtf((float)a->head_dim); // powers of 2 are taken
    for (int64_t h = 0; h < rep; h++)
        for (int64_t i = 0; i < n_q; i++) {
            const int64_t r = h * BLOCK + i, t = q0 + i;
            float *row = s + r * BLOCK;
            const int64_t from = PATH(first_key)(a, t) - k0, to = t + 1 - k0; // visible columns
            if (from > 0 || to < BLOCK) {
                for (int64_t j = 0; j < BLOCK; j++)
                    if (j < from || j >= to) row[j] = -INFINITY;
            }
            vf top = v_set(-INFINITY);
            for (int j = 0; j < BLOCK; j += VN)
                top = v_max(top, v_load(row + j, VN));
            const float now = v_top(top) * scale;
            const float next = now > max[r] ? now : max[r];
            vf part = v_set(0);
            if (next == -INFINITY) { // no key of this block is visible
                memset(p + r * WORDS, 0, sizeof *p * WORDS);
            } else {
                const vf m = v_set(-next), f = v_set(scale);
                for (int j = 0; j < BLOCK; j += VN) {
                    vf e = v_exp2(v_fma(v_load(row + j, VN), f, m));
                    part = v_add(part, e);
                    PATH(put_row)(p + r * WORDS + j / PATH(PER_WORD), e);
                }
            }
            const float keep = max[r] == next || next == -INFINITY ? 1 : exp2f(max[r] - next);
            sum[r] = sum[r] * keep + v_sum(part);
            max[r] = next;
            if (keep < 1)
                for (int64_t j = 0; j < ld_o; j += VN)
                    v_store(o + r * ld_o + j, v_mul(v_set(keep), v_load(o + r * ld_o + j, VN)), VN);
        }
}

static void PATH(forward)(const attention_args *a, int64_t unit, void *scratch) {
    const int64_t d = a->head_dim, rep = a->n_heads / a->n_kv_heads,
                  width = (a->n_heads + 2 * a->n_kv_heads) * d;
    // Late queries first: they have the most keys.
    const int64_t n_blocks = attention_units(a) / a->n_kv_heads;
    const int64_t g = unit % a->n_kv_heads, q0 = (n_blocks - 1 - unit / a->n_kv_heads) * BLOCK;
    const int64_t n_q = a->seq - q0 < BLOCK ? a->seq - q0 : BLOCK;
    const int64_t words = d / PATH(PER_WORD), ld = round_up(d, LANES);
    uint32_t *q = scratch, *kt = q + rep * BLOCK * ld, *rows = kt + BLOCK * ld,
             *v = rows + BLOCK * ld;
    float *s = (float *)(void *)(v + BLOCK * ld), *o = s + rep * BLOCK * BLOCK;
    float *max = o + rep * BLOCK * ld, *sum = max + rep * BLOCK;
    enum { WORDS = BLOCK / PATH(PER_WORD) };
    // Probabilities take the place of the scores in fp32.
    uint32_t *p = (uint32_t *)(void *)(PATH(PER_WORD) == 1 ? s : sum + rep * BLOCK);
    memset(o, 0, sizeof *o * (size_t)(rep * BLOCK * ld));
    for (int64_t r = 0; r < rep * BLOCK; r++)
        max[r] = -INFINITY, sum[r] = 0;
    for (int64_t h = 0; h < rep; h++)
        PATH(take_rows)
    (a->dt, a->qkv, q0 * width + (g * rep + h) * d, width, n_q, d, q + h * BLOCK * ld, ld);
    const int64_t begin = PATH(first_key)(a, q0) / BLOCK * BLOCK;
    for (int64_t k0 = begin; k0 <= q0; k0 += BLOCK) {
        const int64_t n_k = a->seq - k0 < BLOCK ? a->seq - k0 : BLOCK;
        PATH(take_rows)(a->dt, a->qkv, k0 * width + (a->n_heads + g) * d, width, n_k, d, rows, ld);
        transpose_block(rows, ld, n_k, words, kt);
        PATH(take_rows)
        (a->dt, a->qkv, k0 * width + (a->n_heads + a->n_kv_heads + g) * d, width, n_k, d, rows, ld);
        PATH(inner_rows)(rows, ld, n_k, BLOCK, d, v, ld);
        for (int64_t h = 0; h < rep; h++)
            PATH(product)
        (n_q, BLOCK, words, q + h * BLOCK * ld, ld, 1, kt, BLOCK, s + h * BLOCK * BLOCK, BLOCK,
                false);
        PATH(softmax_block)(a, q0, k0, n_q, rep, s, p, o, ld, max, sum);
        for (int64_t h = 0; h < rep; h++) {
            PATH(product)
            (n_q, ld, WORDS, p + h * BLOCK * WORDS, WORDS, 1, v, ld, o + h * BLOCK * ld, ld, true);
        }
    }
    for (int64_t h = 0; h < rep; h++)
        for (int64_t i = 0; i < n_q; i++) {
            const int64_t r = h * BLOCK + i, at = ((q0 + i) * a->n_heads + g * rep + h) * d;
            const vf f = v_set(1 / sum[r]);
            VLOOP(j, k, d, { st(a->dt, a->o, at + j, v_mul(f, v_load(o + r * ld + j, k)), k); });
            ((float *)a->lse)[(g * rep + h) * a->lse_stride + q0 + i] =
                    max[r] / LOG2_E + logf(sum[r]);
        }
}

// --- backward: one query head, one chunk of keys
typedef struct PATH(back) {
    const attention_args *a;
    int64_t ld, words;
    uint32_t *q_a, *do_a; // A operands: rows of words, row_a apart
    int64_t row_a;
    uint32_t *q_b, *do_b; // B operands over the queries
    float *delta, *dq;
    const float *lse;
    uint32_t *kt, *vt, *k_b, *rows;
    float *s, *dp;
    float *dk, *dv; // [seq, head_dim] like dq: parts of the sums
    int64_t first;  // key of the chunk
    uint32_t *p_col, *ds_row, *ds_col;
} PATH(back);

// From the scores s and dp: P and dS = P * (dP - delta) * scale, in place for fp32 arithmetic, as
// words for bf16.
static void PATH(softmax_grad)(const PATH(back) * b, int64_t q0, int64_t k0, int64_t n_q) {
    enum { WORDS = BLOCK / PATH(PER_WORD) };
    const float scale = 1 / sqrtf((float)b->a->head_dim);
    const vf f = v_set(scale), f2 = v_set(scale * LOG2_E);
    if (n_q % 2) { // the pair of the last row
        memset(b->s + n_q * BLOCK, 0, sizeof(float) * BLOCK);
        memset(b->dp + n_q * BLOCK, 0, sizeof(float) * BLOCK);
    }
    for (int64_t i = 0; i < n_q; i += 2) {
        vf lse[2], delta[2];
        for (int r = 0; r < 2; r++) {
            float *s = b->s + (i + r) * BLOCK;
            const int64_t t = q0 + i + r;
            const bool exists = i + r < n_q;
            lse[r] = v_set(exists ? -LOG2_E * b->lse[t] : -INFINITY);
            delta[r] = v_set(exists ? b->delta[t] : 0);
            const int64_t from = exists ? PATH(first_key)(b->a, t) - k0 : 0, to = t + 1 - k0;
            if (from > 0 || to < BLOCK)
                for (int64_t j = 0; j < BLOCK; j++)
                    if (j < from || j >= to) s[j] = -INFINITY;
        }
        for (int64_t j = 0; j < BLOCK; j += VN) {
            vf p[2], ds[2];
            for (int r = 0; r < 2; r++) {
                const int64_t at = (i + r) * BLOCK + j;
                p[r] = v_exp2(v_fma(v_load(b->s + at, VN), f2, lse[r]));
                ds[r] = v_mul(v_mul(p[r], f), v_sub(v_load(b->dp + at, VN), delta[r]));
            }
#if BF16_DOT
            put_column(b->p_col + i / 2 * BLOCK + j, p[0], p[1]);
            put_column(b->ds_col + i / 2 * BLOCK + j, ds[0], ds[1]);
#else
            for (int r = 0; r < 2; r++)
                v_store(b->s + (i + r) * BLOCK + j, p[r], VN);
#endif
            for (int r = 0; r < 2; r++)
                PATH(put_row)(b->ds_row + (i + r) * WORDS + j / PATH(PER_WORD), ds[r]);
        }
    }
}

static void PATH(backward_block)(const PATH(back) * b, int64_t q0, int64_t k0) {
    enum { WORDS = BLOCK / PATH(PER_WORD) };
    const attention_args *a = b->a;
    const int64_t n_q = a->seq - q0 < BLOCK ? a->seq - q0 : BLOCK, d = a->head_dim;
    const int64_t n_k = a->seq - k0 < BLOCK ? a->seq - k0 : BLOCK;
    const int64_t qq = (n_q + PATH(PER_WORD) - 1) / PATH(PER_WORD),
                  at = q0 / PATH(PER_WORD) * b->ld;
    PATH(product)
    (n_q, BLOCK, b->words, b->q_a + q0 * b->row_a, b->row_a, 1, b->kt, BLOCK, b->s, BLOCK, false);
    PATH(product)
    (n_q, BLOCK, b->words, b->do_a + q0 * b->row_a, b->row_a, 1, b->vt, BLOCK, b->dp, BLOCK, false);
    PATH(softmax_grad)(b, q0, k0, n_q);
    PATH(product)(n_k, d, qq, b->p_col, 1, BLOCK, b->do_b + at, b->ld, b->dv + k0 * d, d, q0 > k0);
    PATH(product)(n_k, d, qq, b->ds_col, 1, BLOCK, b->q_b + at, b->ld, b->dk + k0 * d, d, q0 > k0);
    PATH(product)
    (n_q, d, WORDS, b->ds_row, WORDS, 1, b->k_b, b->ld, b->dq + q0 * d, d, k0 > b->first);
}

static void PATH(prepare_queries)(PATH(back) * b, int64_t h, int64_t first) {
    const attention_args *a = b->a;
    const int64_t d = a->head_dim, width = (a->n_heads + 2 * a->n_kv_heads) * d,
                  o_width = a->n_heads * d;
    for (int64_t t = first; t < a->seq; t++) {
        vf sum = v_set(0);
        const int64_t at = t * o_width + h * d;
        VLOOP(j, k, d,
                { sum = v_fma(ld(a->dt, a->d_o, at + j, k), ld(a->dt, a->o, at + j, k), sum); });
        b->delta[t] = v_sum(sum);
    }
    for (int64_t q0 = first; q0 < a->seq; q0 += BLOCK) {
        const int64_t n = a->seq - q0 < BLOCK ? a->seq - q0 : BLOCK,
                      at = q0 / PATH(PER_WORD) * b->ld;
        const int64_t n_pad = round_up(n, PATH(PER_WORD));
#if BF16_DOT
        uint32_t *q = b->q_a + q0 * b->row_a, *d_o = b->do_a + q0 * b->row_a;
#else
        uint32_t *q = b->rows, *d_o = b->rows; // the B operands serve as A operands too
#endif
        PATH(take_rows)(a->dt, a->qkv, q0 * width + h * d, width, n, d, q, b->row_a);
        PATH(inner_rows)(q, b->row_a, n, n_pad, d, b->q_b + at, b->ld);
        PATH(take_rows)(a->dt, a->d_o, q0 * o_width + h * d, o_width, n, d, d_o, b->row_a);
        PATH(inner_rows)(d_o, b->row_a, n, n_pad, d, b->do_b + at, b->ld);
    }
}

static void PATH(backward)(const attention_args *a, int64_t unit, void *scratch) {
    const int64_t n_chunks = attention_grad_chunks(a), d = a->head_dim;
    // All heads' first chunks first: they have the most queries.
    const int64_t h = unit % a->n_heads, c = unit / a->n_heads,
                  g = h / (a->n_heads / a->n_kv_heads);
    const int64_t width = (a->n_heads + 2 * a->n_kv_heads) * d, seq = round_up(a->seq, BLOCK);
    const int64_t chunk = chunk_of(a), first = c * chunk;
    float *part = a->part + h * (n_chunks + 2) * a->seq * d;
    PATH(back) b = {.a = a, .ld = round_up(d, LANES), .words = d / PATH(PER_WORD)};
    const int64_t ld = b.ld;
    uint32_t *at = scratch;
    b.q_b = at, at += seq / PATH(PER_WORD) * ld;
    b.do_b = at, at += seq / PATH(PER_WORD) * ld;
#if BF16_DOT
    b.row_a = round_up(b.words, LANES);
    b.q_a = at, at += seq * b.row_a;
    b.do_a = at, at += seq * b.row_a;
#else
    b.row_a = ld;
    b.q_a = b.q_b;
    b.do_a = b.do_b;
#endif
    b.delta = (float *)(void *)at, at += seq;
    b.kt = at, at += BLOCK * ld;
    b.vt = at, at += BLOCK * ld;
    b.k_b = at, at += BLOCK * ld;
    b.rows = at, at += BLOCK * ld;
    b.s = (float *)(void *)at, at += BLOCK * BLOCK;
    b.dp = (float *)(void *)at, at += BLOCK * BLOCK;
#if BF16_DOT
    b.p_col = at, at += BLOCK * BLOCK / 2;
    b.ds_row = at, at += BLOCK * BLOCK / 2;
    b.ds_col = at, at += BLOCK * BLOCK / 2;
#else
    b.p_col = (uint32_t *)(void *)b.s; // both ways of reading them are there
    b.ds_row = b.ds_col = (uint32_t *)(void *)b.dp;
#endif
    b.dk = part + n_chunks * a->seq * d;
    b.dv = b.dk + a->seq * d;
    b.lse = (const float *)a->lse + h * a->lse_stride;
    b.dq = part + c * a->seq * d;
    b.first = first;
    if (first >= a->seq) return;
    PATH(prepare_queries)(&b, h, first);
    for (int64_t k0 = first; k0 < first + chunk && k0 < a->seq; k0 += BLOCK) {
        const int64_t n_k = a->seq - k0 < BLOCK ? a->seq - k0 : BLOCK;
        PATH(take_rows)
        (a->dt, a->qkv, k0 * width + (a->n_heads + g) * d, width, n_k, d, b.rows, ld);
        transpose_block(b.rows, ld, n_k, b.words, b.kt);
        PATH(inner_rows)(b.rows, ld, n_k, BLOCK, d, b.k_b, ld);
        PATH(take_rows)
        (a->dt, a->qkv, k0 * width + (a->n_heads + a->n_kv_heads + g) * d, width, n_k, d, b.rows,
                ld);
        transpose_block(b.rows, ld, n_k, b.words, b.vt);
        int64_t q0 = k0;
        for (; q0 < a->seq && PATH(first_key)(a, q0) < k0 + BLOCK; q0 += BLOCK)
            PATH(backward_block)(&b, q0, k0);
        if (k0 == first && q0 < a->seq) // queries of other documents
            memset(b.dq + q0 * d, 0, sizeof(float) * (size_t)((a->seq - q0) * d));
    }
}
