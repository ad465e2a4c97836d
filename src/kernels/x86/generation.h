// Kernels of generation, where one token at a time is bound by memory: a row times a matrix, and
// attention over cached keys and values. As in elementwise.h, NAME_as takes a constant type and
// NAME picks it.
#pragma once
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/vec.h"

// Bytes: some rows, since the stream of a small matrix is over before the processor finds it.
enum { FETCH_AHEAD = 8192, LINE = 64 };

// LANES elements from index i on and the LANES behind them; those of bf16 are sorted by even and
// odd places, which costs less than by halves and is the same to a sum.
INLINE void load_two(dtype dt, const void *p, int64_t i, vec two[2]) {
    if (dt == DT_BF16) {
        v_load_bf16_pairs((const uint16_t *)p + i, &two[0], &two[1]);
        return;
    }
    two[0] = v_load((const float *)p + i, LANES);
    two[1] = v_load((const float *)p + i + LANES, LANES);
}

// x . w. One row at a time, so that memory is read as one stream: four rows at once, each with its
// own, read bf16 at two thirds of the speed (bench/results/2026-11-22-generate.md).
INLINE float dot(dtype dt, int64_t width, const void *x, const void *w) {
    const int64_t step = 4 * LANES;
    vec sum[4], a[2], b[2]; // four sums hide the latency of the multiplier
    for (int s = 0; s < 4; s++)
        sum[s] = v_set(0);
    int64_t j = 0;
    for (; j + step <= width; j += step) {
        const char *ahead = (const char *)w + j * dtype_bytes(dt) + FETCH_AHEAD;
        for (int64_t line = 0; line < step * dtype_bytes(dt); line += LINE)
            _mm_prefetch(ahead + line, _MM_HINT_T0);
        for (int s = 0; s < 4; s += 2) {
            load_two(dt, x, j + s * LANES, a);
            load_two(dt, w, j + s * LANES, b);
            sum[s] = v_fma(a[0], b[0], sum[s]);
            sum[s + 1] = v_fma(a[1], b[1], sum[s + 1]);
        }
    }
    for (; j < width; j += LANES) {
        const int k = width - j < LANES ? (int)(width - j) : LANES;
        sum[0] = v_fma(v_load_as(dt, x, j, k), v_load_as(dt, w, j, k), sum[0]);
    }
    return v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}

INLINE void row_times_matrix_as(dtype dt, int64_t n, int64_t width, const void *x, const void *w,
        void *y) {
    for (int64_t i = 0; i < n; i++)
        put(dt, y, i, (double)dot(dt, width, x, (const char *)w + i * width * dtype_bytes(dt)));
}
static void row_times_matrix(dtype dt, int64_t n, int64_t width, const void *x, const void *w,
        void *y) {
    if (dt == DT_F64)
        kernels_ref.row_times_matrix(dt, n, width, x, w, y);
    else if (dt == DT_BF16)
        row_times_matrix_as(DT_BF16, n, width, x, w, y);
    else
        row_times_matrix_as(DT_F32, n, width, x, w, y);
}

INLINE void cached_attention_as(dtype dt, int64_t n, int64_t d, const void *q, const void *keys,
        const void *values, float *p, void *o) {
    for (int64_t s = 0; s < n; s++)
        p[s] = dot(dt, d, q, (const char *)keys + s * d * dtype_bytes(dt));
    float max = p[0];
    for (int64_t s = 1; s < n; s++)
        max = p[s] > max || isnan(p[s]) ? p[s] : max;
    const vec scale = v_set(1 / sqrtf((float)d)), top = v_set(max);
    vec sum = v_set(0);
    FOR_VECTORS(j, k, n, {
        v_store(p + j, v_exp(v_mul(scale, v_sub(v_load(p + j, k), top))), k);
        sum = v_add(sum, v_load(p + j, k));
    });
    const vec share = v_set(1 / v_sum(sum));
    FOR_VECTORS(j, k, d, {
        vec x = v_set(0);
        for (int64_t s = 0; s < n; s++)
            x = v_fma(v_set(p[s]), v_load_as(dt, values, s * d + j, k), x);
        v_store_as(dt, o, j, v_mul(share, x), k);
    });
}
static void cached_attention(dtype dt, int64_t n, int64_t d, const void *q, const void *keys,
        const void *values, void *scores, void *o) {
    if (dt == DT_F64)
        kernels_ref.cached_attention(dt, n, d, q, keys, values, scores, o);
    else if (dt == DT_BF16)
        cached_attention_as(DT_BF16, n, d, q, keys, values, scores, o);
    else
        cached_attention_as(DT_F32, n, d, q, keys, values, scores, o);
}
