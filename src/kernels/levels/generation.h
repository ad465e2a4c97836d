// Kernels of generation, where one token at a time is bound by memory: a row times a matrix, and
// the attention of a row over cached keys and values. They are built on the dot product of two
// rows, which is passed as a constant (a level's own for bf16).
// Legend: x, w rows that are multiplied; n rows or keys; d head_dim; p weights of keys; o output.
#pragma once
#include <math.h>

#include "base/elementary.h"
#include "kernels/ref/ref.h"
#include "kernels/levels/reductions.h"

// In bytes: some rows ahead, since a small matrix is read before the hardware prefetcher detects
// the stream.
enum { FETCH_AHEAD = 8192, LINE = 64 };

// Computes the sums of x . w over `width` elements, by element of a vector. If memory is read once
// and in order, the memory after w is prefetched (`ahead`, a constant).
typedef vec dot_function(int64_t width, const void *x, const void *w, bool ahead);

// Begins to load `bytes` (a constant) that lie FETCH_AHEAD after w. Every line has to be fetched: a
// loop that left out the end of each row read bf16 at three quarters of the speed.
INLINE void fetch_ahead(const void *w, int bytes) {
    for (int line = 0; line < bytes; line += LINE)
        v_prefetch((const char *)w + FETCH_AHEAD + line);
}

// Vector s of the LANES elements from index i on, and of the LANES after them; those of bf16 are
// sorted by even and odd places, which costs less than by halves and is the same to a sum.
INLINE void load_two(dtype dt, const void *p, int64_t i, int s, vec two[2]) {
    if (dt == DT_BF16) {
        v_load_bf16_pairs((const uint16_t *)p + i + 2 * s * WIDTH, &two[0], &two[1]);
        return;
    }
    two[0] = v_load((const float *)p + i + s * WIDTH, WIDTH);
    two[1] = v_load((const float *)p + i + LANES + s * WIDTH, WIDTH);
}

// One row at a time, so that memory is read as one stream: four rows at once, each with its own,
// read bf16 at two thirds of the speed (bench/results/2026-11-22-generate.md).
INLINE vec float_dot(dtype dt, int64_t width, const void *x, const void *w, bool ahead) {
    const int64_t step = 4 * LANES;
    vec a[2], b[2];
    lanes sum[4]; // four sums hide the latency of the multiplier
    for (int i = 0; i < 4; i++)
        sum[i] = lanes_of(v_set(0));
    int64_t at = 0;
    for (; at + step <= width; at += step) {
        if (ahead)
            fetch_ahead((const char *)w + at * dtype_bytes(dt), (int)(step * dtype_bytes(dt)));
#pragma GCC unroll 2
        for (int i = 0; i < 4; i += 2)
#pragma GCC unroll 4
            for (int s = 0; s < LANE_VECS; s++) {
                load_two(dt, x, at + i * LANES, s, a);
                load_two(dt, w, at + i * LANES, s, b);
                sum[i].of[s] = v_fma(a[0], b[0], sum[i].of[s]);
                sum[i + 1].of[s] = v_fma(a[1], b[1], sum[i + 1].of[s]);
            }
    }
    FOR_LANES(j, s, k, width - at, {
        if (ahead) fetch_ahead((const char *)w + (at + j) * dtype_bytes(dt), 1);
        sum[0].of[s] =
                v_fma(v_load_as(dt, w, at + j, k), v_load_as(dt, x, at + j, k), sum[0].of[s]);
    });
    lanes all;
#pragma GCC unroll 4
    for (int s = 0; s < LANE_VECS; s++)
        all.of[s] = v_add(v_add(sum[0].of[s], sum[1].of[s]), v_add(sum[2].of[s], sum[3].of[s]));
    return lanes_fold(v_add, &all);
}

INLINE vec f32_dot(int64_t width, const void *x, const void *w, bool ahead) {
    return float_dot(DT_F32, width, x, w, ahead);
}
INLINE vec wide_dot(int64_t width, const void *x, const void *w, bool ahead) { // bf16, widened
    return float_dot(DT_BF16, width, x, w, ahead);
}

// y_N = x_K W_NK^T.
INLINE void row_times_matrix_by(dot_function *dot, dtype dt, int64_t n, int64_t width,
        const void *x, const void *w, void *y) {
    for (int64_t i = 0; i < n; i++)
        put(dt, y, i,
                (double)v_sum(dot(width, x, (const char *)w + i * width * dtype_bytes(dt), true)));
}

// --- attention of a row. Of a head and a chunk of keys, `part` holds the largest score, the sum of
// exp(score - largest), and the sums of the values by these weights. The heads of a group go
// together, so that keys and values are read from memory once.
typedef struct row_chunk {
    int64_t n, d, row_bytes;   // keys; elements and bytes of one
    const char *keys, *values; // [n, d]
    const char *q;             // of the group's first head
    float *scores;             // of each head, `stride` after those of the one before
    int64_t stride;
} row_chunk;

// Begins to load the rows [first, first + n) of [.., row_bytes].
INLINE void fetch_rows(const char *p, int64_t row_bytes, int64_t first, int64_t n) {
    for (int64_t line = first * row_bytes; line < (first + n) * row_bytes; line += LINE)
        v_prefetch(p + line);
}

// Computes the scores of as many keys at a time as a vector has elements, which costs a third of
// reducing the vector of each key by itself. The values are read next.
INLINE void score_keys(dot_function *dot, const row_chunk *c, int64_t n_heads) {
    for (int64_t s = 0; s < c->n; s += WIDTH) {
        const int n_here = c->n - s < WIDTH ? (int)(c->n - s) : WIDTH;
        fetch_rows(c->values, c->row_bytes, s, n_here);
        for (int64_t head = 0; head < n_heads; head++) {
            vec sum[WIDTH];
            for (int i = 0; i < WIDTH; i++)
                sum[i] = dot(c->d, c->q + head * c->row_bytes,
                        c->keys + (s + (i < n_here ? i : n_here - 1)) * c->row_bytes, false);
            v_store(c->scores + head * c->stride + s, v_joins(v_add, sum), n_here);
        }
    }
}

// Turns the scores of a head into weights: part[0] is the largest score, part[1] the sum of the
// weights.
INLINE void weigh_scores(int64_t n, int64_t d, float *p, float *part) {
    const float scale = 1 / sqrtf((float)d), max = largest(p, n);
    const vec factor = v_set(scale), top = v_set(max);
    lanes sum = lanes_of(v_set(0));
    FOR_LANES(j, s, k, n, {
        v_store(p + j, v_exp(v_mul(factor, v_sub(v_load(p + j, k), top))), k);
        sum.of[s] = v_add(sum.of[s], v_load(p + j, k));
    });
    part[0] = max * scale;
    part[1] = lanes_sum(&sum);
}

// o_HD = p_HN V_ND for n_heads heads and n_vecs vectors of columns from j on (constants), k
// elements of the last. Where `ahead`, the keys that follow this chunk are fetched.
INLINE void weigh_columns(dtype dt, const row_chunk *c, int n_heads, int n_vecs, int64_t j, int k,
        bool ahead, const float *p, float *o, int64_t o_stride) {
    vec sum[4][4];
    for (int h = 0; h < n_heads; h++)
        for (int i = 0; i < n_vecs; i++)
            sum[h][i] = v_set(0);
    for (int64_t s = 0; s < c->n; s++) {
        vec v[4];
        if (ahead) fetch_rows(c->keys, c->row_bytes, c->n + s, 1);
        for (int i = 0; i < n_vecs; i++)
            v[i] = v_load_as(dt, c->values, s * c->d + j + i * WIDTH, k);
        for (int h = 0; h < n_heads; h++)
            for (int i = 0; i < n_vecs; i++)
                sum[h][i] = v_fma(v_set(p[h * c->stride + s]), v[i], sum[h][i]);
    }
    for (int h = 0; h < n_heads; h++)
        for (int i = 0; i < n_vecs; i++)
            v_store(o + h * o_stride + j + i * WIDTH, sum[h][i], k);
}

INLINE void weigh_values(dtype dt, const row_chunk *c, int n_heads, bool ahead, const float *p,
        float *o, int64_t o_stride) {
    enum { N_VECS = REGISTERS == 32 ? 4 : 2 }; // sums that fit the registers
    int64_t j = 0;
    for (; j + N_VECS * WIDTH <= c->d; j += N_VECS * WIDTH)
        weigh_columns(dt, c, n_heads, N_VECS, j, WIDTH, ahead && j == 0, p, o, o_stride);
    for (; j < c->d; j += WIDTH)
        weigh_columns(dt, c, n_heads, 1, j, c->d - j < WIDTH ? (int)(c->d - j) : WIDTH,
                ahead && j == 0, p, o, o_stride);
}

// d: args->head_dim, a constant where that is a common one.
INLINE void row_attention_with(dot_function *dot, dtype dt, int64_t d, const attention_args *args,
        int64_t unit, float *part, float *scores) {
    const int64_t n_rep = args->n_heads / args->n_kv_heads, size = row_attention_chunk(args),
                  n_chunks = row_attention_units(args) / args->n_kv_heads, chunk = unit % n_chunks,
                  group = unit / n_chunks, first = chunk * size, left = args->first + 1 - first,
                  row_bytes = d * dtype_bytes(dt),
                  at = (group * args->capacity + first) * row_bytes, step = n_chunks * (d + 2);
    const row_chunk c = {.n = left < size ? left : size,
            .d = d,
            .row_bytes = row_bytes,
            .keys = (const char *)args->keys + at,
            .values = (const char *)args->values + at,
            .q = (const char *)args->qkv + group * n_rep * row_bytes,
            .scores = scores,
            .stride = size};
    score_keys(dot, &c, n_rep);
    for (int64_t head = 0; head < n_rep;) {
        float *const p = scores + head * size, *const to = part + (group * n_rep + head) * step +
                                                           chunk * (d + 2);
        const int64_t n = n_rep - head < 4 ? n_rep - head : 4;
        for (int64_t h = 0; h < n; h++)
            weigh_scores(c.n, d, p + h * size, to + h * step);
        const bool ahead = head == 0 && chunk + 1 < n_chunks;
        if (n == 4)
            weigh_values(dt, &c, 4, ahead, p, to + 2, step);
        else if (n == 3)
            weigh_values(dt, &c, 3, ahead, p, to + 2, step);
        else if (n == 2)
            weigh_values(dt, &c, 2, ahead, p, to + 2, step);
        else
            weigh_values(dt, &c, 1, ahead, p, to + 2, step);
        head += n;
    }
}

INLINE void row_attention_by(dot_function *dot, dtype dt, const attention_args *args, int64_t unit,
        float *part, float *scores) {
    if (args->head_dim == 64)
        row_attention_with(dot, dt, 64, args, unit, part, scores);
    else if (args->head_dim == 128)
        row_attention_with(dot, dt, 128, args, unit, part, scores);
    else
        row_attention_with(dot, dt, args->head_dim, args, unit, part, scores);
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
            weight[c] = (float)drv_exp((double)(p[c * step] - max));
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
