// Kernels of generation, where one token at a time is bound by memory: a row times a matrix, and
// the attention of a row over cached keys and values. They are built on the dot product of two
// rows, which is passed as a constant (a level's own for bf16).
// Legend: x, w rows that are multiplied; n rows or keys; d head_dim; p weights of keys; o output.
#pragma once
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/vec.h"

// Bytes: some rows, since the stream of a small matrix is over before the processor finds it.
enum { FETCH_AHEAD = 8192, LINE = 64 };

// x . w of `width` elements. w is read once and in order, so what follows it is fetched ahead.
typedef float dot_function(int64_t width, const void *x, const void *w);

// Begins to load `bytes` (a constant) that lie FETCH_AHEAD after w. Every line has to be fetched: a
// loop that left out the end of each row read bf16 at three quarters of the speed.
INLINE void fetch_ahead(const void *w, int bytes) {
    for (int line = 0; line < bytes; line += LINE)
        _mm_prefetch((const char *)w + FETCH_AHEAD + line, _MM_HINT_T0);
}

// LANES elements from index i on and the LANES after them; those of bf16 are sorted by even and
// odd places, which costs less than by halves and is the same to a sum.
INLINE void load_two(dtype dt, const void *p, int64_t i, vec two[2]) {
    if (dt == DT_BF16) {
        v_load_bf16_pairs((const uint16_t *)p + i, &two[0], &two[1]);
        return;
    }
    two[0] = v_load((const float *)p + i, LANES);
    two[1] = v_load((const float *)p + i + LANES, LANES);
}

// One row at a time, so that memory is read as one stream: four rows at once, each with its own,
// read bf16 at two thirds of the speed (bench/results/2026-11-22-generate.md).
INLINE float float_dot(dtype dt, int64_t width, const void *x, const void *w) {
    const int64_t step = 4 * LANES;
    vec sum[4], a[2], b[2]; // four sums hide the latency of the multiplier
    for (int s = 0; s < 4; s++)
        sum[s] = v_set(0);
    int64_t j = 0;
    for (; j + step <= width; j += step) {
        fetch_ahead((const char *)w + j * dtype_bytes(dt), (int)(step * dtype_bytes(dt)));
        for (int s = 0; s < 4; s += 2) {
            load_two(dt, x, j + s * LANES, a);
            load_two(dt, w, j + s * LANES, b);
            sum[s] = v_fma(a[0], b[0], sum[s]);
            sum[s + 1] = v_fma(a[1], b[1], sum[s + 1]);
        }
    }
    for (; j < width; j += LANES) {
        const int k = width - j < LANES ? (int)(width - j) : LANES;
        fetch_ahead((const char *)w + j * dtype_bytes(dt), 1);
        sum[0] = v_fma(v_load_as(dt, w, j, k), v_load_as(dt, x, j, k), sum[0]);
    }
    return v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}

INLINE float f32_dot(int64_t width, const void *x, const void *w) {
    return float_dot(DT_F32, width, x, w);
}
INLINE float wide_dot(int64_t width, const void *x, const void *w) { // bf16, widened
    return float_dot(DT_BF16, width, x, w);
}

// y_N = x_K W_NK^T.
INLINE void row_times_matrix_by(dot_function *dot, dtype dt, int64_t n, int64_t width,
        const void *x, const void *w, void *y) {
    for (int64_t i = 0; i < n; i++)
        put(dt, y, i, (double)dot(width, x, (const char *)w + i * width * dtype_bytes(dt)));
}

// --- attention of a row. Of a head and a chunk of keys, `part` holds the largest score, the sum of
// exp(score - largest), and the sums of the values by these weights.

// n weighed rows of the values: o_D = p_N V_ND.
INLINE void weigh_values(dtype dt, int64_t n, int64_t d, const float *p, const void *values,
        float *o) {
    int64_t j = 0;
    for (; j + 4 * LANES <= d; j += 4 * LANES) {
        vec sum[4];
        for (int i = 0; i < 4; i++)
            sum[i] = v_set(0);
        for (int64_t s = 0; s < n; s++)
            for (int i = 0; i < 4; i++)
                sum[i] = v_fma(v_set(p[s]), v_load_as(dt, values, s * d + j + i * LANES, LANES),
                        sum[i]);
        for (int i = 0; i < 4; i++)
            v_store(o + j + i * LANES, sum[i], LANES);
    }
    for (; j < d; j += LANES) {
        const int k = d - j < LANES ? (int)(d - j) : LANES;
        vec sum = v_set(0);
        for (int64_t s = 0; s < n; s++)
            sum = v_fma(v_set(p[s]), v_load_as(dt, values, s * d + j, k), sum);
        v_store(o + j, sum, k);
    }
}

INLINE void row_attention_head(dot_function *dot, dtype dt, int64_t n, int64_t d, const void *q,
        const void *keys, const void *values, float *p, float *part) {
    for (int64_t s = 0; s < n; s++)
        p[s] = dot(d, q, (const char *)keys + s * d * dtype_bytes(dt));
    float max = p[0];
    for (int64_t s = 1; s < n; s++)
        max = p[s] > max || isnan(p[s]) ? p[s] : max;
    const float scale = 1 / sqrtf((float)d);
    const vec factor = v_set(scale), top = v_set(max);
    vec sum = v_set(0);
    FOR_VECTORS(j, k, n, {
        v_store(p + j, v_exp(v_mul(factor, v_sub(v_load(p + j, k), top))), k);
        sum = v_add(sum, v_load(p + j, k));
    });
    part[0] = max * scale;
    part[1] = v_sum(sum);
    weigh_values(dt, n, d, p, values, part + 2);
}

INLINE void row_attention_by(dot_function *dot, dtype dt, const attention_args *args, int64_t unit,
        float *part, float *scores) {
    const int64_t n_rep = args->n_heads / args->n_kv_heads, group = unit % args->n_kv_heads;
    const int64_t chunk = unit / args->n_kv_heads, size = row_attention_chunk(args);
    const int64_t n_chunks = row_attention_units(args) / args->n_kv_heads, first = chunk * size,
                  left = args->first + 1 - first, d = args->head_dim;
    const int64_t at = (group * args->capacity + first) * d * dtype_bytes(dt);
    for (int64_t head = group * n_rep; head < (group + 1) * n_rep; head++)
        row_attention_head(dot, dt, left < size ? left : size, d,
                (const char *)args->qkv + head * d * dtype_bytes(dt), (const char *)args->keys + at,
                (const char *)args->values + at, scores,
                part + (head * n_chunks + chunk) * (d + 2));
}

INLINE void row_attention_join_as(dtype dt, const attention_args *args, const float *part) {
    const int64_t d = args->head_dim, step = d + 2,
                  n_chunks = row_attention_units(args) / args->n_kv_heads;
    for (int64_t head = 0; head < args->n_heads; head++) {
        const float *p = part + head * n_chunks * step;
        float max = p[0], sum = 0, weight[64]; // as many as there may be chunks
        for (int64_t c = 1; c < n_chunks; c++)
            max = p[c * step] > max || isnan(p[c * step]) ? p[c * step] : max;
        for (int64_t c = 0; c < n_chunks; c++) {
            weight[c] = expf(p[c * step] - max);
            sum += weight[c] * p[c * step + 1];
        }
        FOR_VECTORS(j, k, d, {
            vec o = v_set(0);
            for (int64_t c = 0; c < n_chunks; c++)
                o = v_fma(v_set(weight[c]), v_load(p + c * step + 2 + j, k), o);
            v_store_as(dt, args->o, head * d + j, v_mul(v_set(1 / sum), o), k);
        });
    }
}

// --- by type; `dot` is that of the level for bf16
INLINE void row_times_matrix_of(dot_function *dot, dtype dt, int64_t n, int64_t width,
        const void *x, const void *w, void *y) {
    if (dt == DT_F64)
        kernels_ref.row_times_matrix(dt, n, width, x, w, y);
    else if (dt == DT_BF16)
        row_times_matrix_by(dot, DT_BF16, n, width, x, w, y);
    else
        row_times_matrix_by(f32_dot, DT_F32, n, width, x, w, y);
}

INLINE void row_attention_of(dot_function *dot, const attention_args *args, int64_t unit,
        void *part, void *scratch) {
    if (args->dt == DT_F64)
        ref_row_attention(args, unit, part, scratch);
    else if (args->dt == DT_BF16)
        row_attention_by(dot, DT_BF16, args, unit, part, scratch);
    else
        row_attention_by(f32_dot, DT_F32, args, unit, part, scratch);
}

static void row_attention_join(const attention_args *args, const void *part) {
    if (args->dt == DT_F64)
        ref_row_attention_join(args, part);
    else if (args->dt == DT_BF16)
        row_attention_join_as(DT_BF16, args, part);
    else
        row_attention_join_as(DT_F32, args, part);
}
