// FlashAttention-2 (arXiv:2307.08691) for one vector level. The instances for fp32 arithmetic and
// for the bf16 dot product are the same text, attention_blocks.h, over words (words.h).
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/simd.h"

enum { BLOCK = ATTENTION_BLOCK, LANES = 16 };
static const float LOG2_E = 1.44269504f;

// Keys of a chunk of the gradient.
static int64_t chunk_of(const attention_args *a) {
    const int64_t n = attention_grad_chunks(a);
    return round_up((a->seq + n - 1) / n, BLOCK);
}

// dst[w][r] = src[r][w]; dst is [n_words][BLOCK]; rows beyond n_rows become 0.
static void transpose_block(const uint32_t *src, int64_t ld_src, int64_t n_rows, int64_t n_words,
        uint32_t *dst) {
    if (n_rows == BLOCK && n_words % 8 == 0) {
        for (int64_t r = 0; r < BLOCK; r += 8)
            for (int64_t w = 0; w < n_words; w += 8) {
                __m256 v[8];
                for (int i = 0; i < 8; i++)
                    v[i] = _mm256_loadu_ps(
                            (const float *)(const void *)(src + (r + i) * ld_src + w));
                transpose8(v);
                for (int i = 0; i < 8; i++)
                    _mm256_storeu_ps((float *)(void *)(dst + (w + i) * BLOCK + r), v[i]);
            }
        return;
    }
    for (int64_t w = 0; w < n_words; w++)
        for (int64_t r = 0; r < BLOCK; r++)
            dst[w * BLOCK + r] = r < n_rows ? src[r * ld_src + w] : 0;
}

#define BLOCKS "kernels/x86/attention_blocks.h"
#include "kernels/x86/each_arithmetic.h"

void SIMD_NAME(attention)(const attention_args *a, int64_t unit, void *scratch) {
    if (a->dt == DT_F64) ref_attention(a, unit, scratch);
#if SIMD_LEVEL == 4
    else if (a->dt == DT_BF16)
        forward_bf16(a, unit, scratch);
#endif
    else
        forward_f32(a, unit, scratch);
}

void SIMD_NAME(attention_grad)(const attention_args *a, int64_t unit, void *scratch) {
    if (a->dt == DT_F64) ref_attention_grad(a, unit, scratch);
#if SIMD_LEVEL == 4
    else if (a->dt == DT_BF16)
        backward_bf16(a, unit, scratch);
#endif
    else
        backward_f32(a, unit, scratch);
}

static void add_to(float *restrict sum, const float *restrict x, int64_t n) {
    VLOOP(j, k, n, { v_store(sum + j, v_add(v_load(sum + j, k), v_load(x + j, k)), k); });
}

static void copy(float *restrict to, const float *restrict x, int64_t n) {
    VLOOP(j, k, n, { v_store(to + j, v_load(x + j, k), k); });
}

static void put_row(dtype dt, void *p, int64_t at, const float *x, int64_t n) {
    VLOOP(j, k, n, { st(dt, p, at + j, v_load(x + j, k), k); });
}

void SIMD_NAME(attention_grad_sum)(const attention_args *a, int64_t unit) {
    if (a->dt == DT_F64) {
        ref_attention_grad_sum(a, unit);
        return;
    }
    const int64_t n_chunks = attention_grad_chunks(a), chunk = chunk_of(a), d = a->head_dim,
                  rep = a->n_heads / a->n_kv_heads;
    const int64_t head = (n_chunks + 2) * a->seq * d, width = (a->n_heads + 2 * a->n_kv_heads) * d;
    const int64_t begin = unit * ATTENTION_SUM_BLOCK, end = begin + ATTENTION_SUM_BLOCK;
    float sum[1024];
    for (int64_t t = begin; t < end && t < a->seq; t++) {
        for (int64_t h = 0; h < a->n_heads; h++) {
            copy(sum, a->part + h * head + t * d, d);
            for (int64_t c = 1; c * chunk <= t; c++) // later keys are not seen
                add_to(sum, a->part + h * head + (c * a->seq + t) * d, d);
            put_row(a->dt, a->dqkv, t * width + h * d, sum, d);
        }
        for (int64_t which = 0; which < 2; which++)
            for (int64_t g = 0; g < a->n_kv_heads; g++) {
                const float *p = a->part + g * rep * head + ((n_chunks + which) * a->seq + t) * d;
                copy(sum, p, d);
                for (int64_t r = 1; r < rep; r++)
                    add_to(sum, p + r * head, d);
                put_row(a->dt, a->dqkv, t * width + (a->n_heads + which * a->n_kv_heads + g) * d,
                        sum, d);
            }
    }
}
