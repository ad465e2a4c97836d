// The level AVX-512 with its bf16 instructions, as one table: products of bf16 go by the dot
// product, those of f32 as at the level below; all else is compiled again, with an instruction that
// rounds to bf16.
#include "kernels/levels/attention_pair.h"
#include "kernels/levels/gemm_pair.h"
#include "kernels/levels/generation.h"
#include "kernels/levels/level_table.h"

static void gemm_f32(const gemm_shape *shape, const void *a, const void *b, void *c,
        void *scratch) {
    kernels_avx512.gemm(shape, a, b, c, scratch);
}

static void attention_f32(const attention_args *args, int64_t unit, void *scratch) {
    kernels_avx512.attention(args, unit, scratch);
}

static void attention_grad_f32(const attention_args *args, int64_t unit, void *scratch) {
    kernels_avx512.attention_grad(args, unit, scratch);
}

#include "kernels/levels/level_types.h"

// x . w of bf16 by its dot product. Two instructions per line of memory: so many fewer than to
// widen and multiply that the processor looks further ahead, and reads at 0.96 instead of 0.77 of
// what a thread can (bench/results/2026-11-22-generation.md).
INLINE vec pair_dot(int64_t width, const void *x, const void *w, bool ahead) {
    const uint16_t *a = x, *b = w;
    vec sum[2] = {v_set(0), v_set(0)};
    int64_t j = 0;
    for (; j + 64 <= width; j += 64) {
        if (ahead) fetch_ahead(b + j, 128);
        for (int s = 0; s < 2; s++)
            sum[s] = _mm512_dpbf16_ps(sum[s], (__m512bh)_mm512_loadu_si512(a + j + 32 * s),
                    (__m512bh)_mm512_loadu_si512(b + j + 32 * s));
    }
    for (; j < width; j += 32) {
        const __mmask32 there = width - j < 32 ? (1u << (width - j)) - 1 : UINT32_MAX;
        if (ahead) fetch_ahead(b + j, 64);
        sum[0] = _mm512_dpbf16_ps(sum[0], (__m512bh)_mm512_maskz_loadu_epi16(there, a + j),
                (__m512bh)_mm512_maskz_loadu_epi16(there, b + j));
    }
    return v_add(sum[0], sum[1]);
}

static void row_times_matrix(dtype dt, int64_t n, int64_t width, const void *x, const void *w,
        void *y) {
    row_times_matrix_of(pair_dot, dt, n, width, x, w, y);
}

static void row_attention(const attention_args *args, int64_t unit, void *part, void *scratch) {
    row_attention_of(pair_dot, args, unit, part, scratch);
}

LEVEL_TABLE(avx512_bf16);
