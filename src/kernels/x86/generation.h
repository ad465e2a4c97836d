// Kernels of generation, where one token at a time is bound by memory: a row times a matrix, and
// attention over cached keys and values. As in elementwise.h, NAME_as takes a constant type and
// NAME picks it.
#pragma once
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/vec.h"

// Bytes: some rows, since the stream of a small matrix is over before the processor finds it.
enum { FETCH_AHEAD = 16384 };

// out[r] = x . w[r] for n_rows rows (a constant, at most 4) of `width` from element `at` of w on;
// four rows keep the multipliers busy.
INLINE void dot_rows(const int n_rows, dtype dt, int64_t width, const void *x, const void *w,
        int64_t at, float *out) {
    vec sum[4];
    for (int r = 0; r < n_rows; r++)
        sum[r] = v_set(0);
    FOR_VECTORS(j, k, width, {
        const vec xj = v_load_as(dt, x, j, k);
        for (int r = 0; r < n_rows; r++) {
            const int64_t i = at + r * width + j;
            _mm_prefetch((const char *)w + i * dtype_bytes(dt) + FETCH_AHEAD, _MM_HINT_T0);
            sum[r] = v_fma(xj, v_load_as(dt, w, i, k), sum[r]);
        }
    });
    for (int r = 0; r < n_rows; r++)
        out[r] = v_sum(sum[r]);
}

INLINE void row_times_matrix_as(dtype dt, int64_t n, int64_t width, const void *x, const void *w,
        void *y) {
    for (int64_t i = 0; i < n; i += 4) {
        const int64_t n_rows = n - i < 4 ? n - i : 4;
        float out[4];
        if (n_rows == 4)
            dot_rows(4, dt, width, x, w, i * width, out);
        else
            for (int64_t r = 0; r < n_rows; r++)
                dot_rows(1, dt, width, x, w, (i + r) * width, out + r);
        for (int64_t r = 0; r < n_rows; r++)
            put(dt, y, i + r, (double)out[r]);
    }
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
    int64_t s = 0;
    for (; s + 4 <= n; s += 4)
        dot_rows(4, dt, d, q, keys, s * d, p + s);
    for (; s < n; s++)
        dot_rows(1, dt, d, q, keys, s * d, p + s);
    float max = p[0];
    for (s = 1; s < n; s++)
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
        for (s = 0; s < n; s++)
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
