// Kernels whose elements do not depend on each other, and AdamW. Each has a function for a type
// that is a constant where it is called, NAME_as, and one that picks it; f64 goes to the reference.
#pragma once
#include <math.h>
#include <string.h>

#include "kernels/ref/exact_squares.h"
#include "kernels/ref/ref.h"
#include "kernels/levels/vec.h"

INLINE void add_as(dtype dt, int64_t n, const void *a, const void *b, void *y) {
    FOR_VECTORS(j, k, n,
            { v_store_as(dt, y, j, v_add(v_load_as(dt, a, j, k), v_load_as(dt, b, j, k)), k); });
}
static void add(dtype dt, int64_t n, const void *a, const void *b, void *y) {
    BY_TYPE(kernels_ref.add, add_as, dt, n, a, b, y);
}

INLINE void accumulate_as(dtype dt, int64_t n, const void *x, float *acc) {
    FOR_VECTORS(j, k, n,
            { v_store(acc + j, v_add(v_load(acc + j, k), v_load_as(dt, x, j, k)), k); });
}
static void accumulate(dtype dt, int64_t n, const void *x, void *acc) {
    BY_TYPE(kernels_ref.accumulate, accumulate_as, dt, n, x, acc);
}

INLINE void narrow_as(dtype dt, int64_t n, const float *x, const void *c, void *y) {
    FOR_VECTORS(j, k, n, {
        const vec v = v_load(x + j, k);
        v_store_as(dt, y, j, c ? v_add(v, v_load_as(dt, c, j, k)) : v, k);
    });
}
static void narrow(dtype dt, int64_t n, const void *x, const void *c, void *y) {
    BY_TYPE(kernels_ref.narrow, narrow_as, dt, n, x, c, y);
}

// Turns the pairs (x[j], x[j + half]) of one head by the angles of a row of the table.
INLINE void rotate_head(dtype dt, const void *x, int64_t at, const float *table, int half,
        bool inverse, void *y) {
    const float *cosines = table, *sines = table + half;
    const vec sign = v_set(inverse ? -1.0f : 1.0f);
    FOR_VECTORS(j, k, half, {
        const vec c = v_load(cosines + j, k), s = v_mul(sign, v_load(sines + j, k));
        const vec a = v_load_as(dt, x, at + j, k), b = v_load_as(dt, x, at + half + j, k);
        v_store_as(dt, y, at + j, v_fnma(b, s, v_mul(a, c)), k);
        v_store_as(dt, y, at + half + j, v_fma(a, s, v_mul(b, c)), k);
    });
}
INLINE void rope_as(dtype dt, int64_t rows, int64_t width, int n_heads, int head_dim, const void *x,
        const float *table, bool inverse, void *y) {
    const int64_t rotated = (int64_t)n_heads * head_dim, bytes = dtype_bytes(dt);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = i * width, rest = (row + rotated) * bytes;
        for (int h = 0; h < n_heads; h++)
            rotate_head(dt, x, row + (int64_t)h * head_dim, table + i * head_dim, head_dim / 2,
                    inverse, y);
        if (x != y)
            memcpy((char *)y + rest, (const char *)x + rest, (size_t)((width - rotated) * bytes));
    }
}
static void rope(dtype dt, int64_t rows, int64_t width, int n_heads, int head_dim, const void *x,
        const void *table, bool inverse, void *y) {
    BY_TYPE(kernels_ref.rope, rope_as, dt, rows, width, n_heads, head_dim, x, table, inverse, y);
}

INLINE vec sigmoid(vec x) {
    return v_div(v_set(1), v_add(v_set(1), v_exp(v_sub(v_set(0), x))));
}

INLINE void swiglu_as(dtype dt, int64_t rows, int64_t width, const void *gate_up, void *y) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t gate_at = 2 * i * width, up_at = gate_at + width;
        FOR_VECTORS(j, k, width, {
            const vec gate = v_load_as(dt, gate_up, gate_at + j, k);
            const vec up = v_load_as(dt, gate_up, up_at + j, k);
            v_store_as(dt, y, i * width + j, v_mul(v_mul(gate, sigmoid(gate)), up), k);
        });
    }
}
static void swiglu(dtype dt, int64_t rows, int64_t width, const void *gate_up, void *y) {
    BY_TYPE(kernels_ref.swiglu, swiglu_as, dt, rows, width, gate_up, y);
}

// silu(g) = g s(g), silu'(g) = s + g s (1 - s).
INLINE void swiglu_grad_as(dtype dt, int64_t rows, int64_t width, const void *dy,
        const void *gate_up, void *d_gate_up) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t gate_at = 2 * i * width, up_at = gate_at + width;
        FOR_VECTORS(j, k, width, {
            const vec gate = v_load_as(dt, gate_up, gate_at + j, k);
            const vec up = v_load_as(dt, gate_up, up_at + j, k);
            const vec d = v_load_as(dt, dy, i * width + j, k);
            const vec s = sigmoid(gate), silu = v_mul(gate, s);
            const vec slope = v_fma(silu, v_sub(v_set(1), s), s);
            v_store_as(dt, d_gate_up, gate_at + j, v_mul(v_mul(d, up), slope), k);
            v_store_as(dt, d_gate_up, up_at + j, v_mul(d, silu), k);
        });
    }
}
static void swiglu_grad(dtype dt, int64_t rows, int64_t width, const void *dy, const void *gate_up,
        void *d_gate_up) {
    BY_TYPE(kernels_ref.swiglu_grad, swiglu_grad_as, dt, rows, width, dy, gate_up, d_gate_up);
}

static int squares(dtype dt, int64_t n, const void *x, double *parts) {
    if (dt == DT_F32) return exact_squares(DT_F32, n, x, parts);
    if (dt == DT_BF16) return exact_squares(DT_BF16, n, x, parts);
    return kernels_ref.squares(dt, n, x, parts);
}

typedef struct adamw_vectors {
    vec scale, b1, n1, b2, n2, decay, step, root, eps;
} adamw_vectors;

INLINE adamw_vectors adamw_vectors_of(const adamw_args *args) {
    return (adamw_vectors){.scale = v_set((float)args->grad_scale),
            .b1 = v_set((float)args->beta1),
            .n1 = v_set((float)(1 - args->beta1)),
            .b2 = v_set((float)args->beta2),
            .n2 = v_set((float)(1 - args->beta2)),
            .decay = v_set((float)(args->lr * args->weight_decay)),
            .step = v_set((float)(args->lr / args->c1)),
            .root = v_set((float)(1 / sqrt(args->c2))),
            .eps = v_set((float)args->eps)};
}

// The decay is part of the step that is subtracted from p, so that p is rounded once and lr wd p
// counts as far as p can represent it. torch/optim/adam.py multiplies by 1 - lr * weight_decay,
// which as a float is 1 for lr wd < 3e-8 (no decay at all) and 38 % off at 6e-8 (measured, torch
// 2.11 on fp32 tensors).
INLINE vec adamw_of(const adamw_vectors *by, vec grad, vec *mean, vec *square, vec weight) {
    const vec x = v_mul(grad, by->scale);
    *mean = v_fma(by->b1, *mean, v_mul(by->n1, x));
    *square = v_fma(by->b2, *square, v_mul(v_mul(by->n2, x), x));
    const vec change = v_div(v_mul(by->step, *mean), v_fma(v_sqrt(*square), by->root, by->eps));
    return v_sub(weight, v_fma(by->decay, weight, change));
}

INLINE void adamw_f32(int64_t n, float *p, float *m, float *v, float *g, const adamw_args *args,
        uint16_t *w) {
    const adamw_vectors by = adamw_vectors_of(args);
    FOR_VECTORS(j, k, n, {
        vec mi = v_load(m + j, k), vi = v_load(v + j, k);
        const vec pi = adamw_of(&by, v_load(g + j, k), &mi, &vi, v_load(p + j, k));
        v_store(m + j, mi, k);
        v_store(v + j, vi, k);
        v_store(p + j, pi, k);
        v_store(g + j, v_set(0), k);
        if (w) v_store_bf16(w + j, pi, k);
    });
}
static void adamw(dtype acc, int64_t n, void *p, void *m, void *v, void *g, const adamw_args *args,
        uint16_t *w) {
    if (acc == DT_F64)
        kernels_ref.adamw(acc, n, p, m, v, g, args, w);
    else
        adamw_f32(n, p, m, v, g, args, w);
}
