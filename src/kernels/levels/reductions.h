// Kernels that reduce a row before they write it: RMS norm and the cross-entropy. As in
// elementwise.h, NAME_as takes a constant type and NAME picks it.
// Legend: x input; d what is added to it; h their sum; w weights; y output; r = 1 / rms of a row.
#pragma once
#include <math.h>

#include "base/elementary.h"
#include "kernels/ref/ref.h"
#include "kernels/levels/vec.h"

INLINE void rmsnorm_as(dtype dt, int64_t rows, int64_t width, const void *x, const void *d,
        const float *w, double eps, void *h, void *y, float *r) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = i * width;
        lanes sum = lanes_of(v_set(0));
        if (d) {
            FOR_LANES(j, s, k, width, {
                const vec all = v_add(v_load_as(dt, x, row + j, k), v_load_as(dt, d, row + j, k));
                const vec v = v_rounded_as(dt, all); // as the next reader sees it
                v_store_as(dt, h, row + j, v, k);
                sum.of[s] = v_fma(v, v, sum.of[s]);
            });
        } else {
            FOR_LANES(j, s, k, width, {
                const vec v = v_load_as(dt, x, row + j, k);
                sum.of[s] = v_fma(v, v, sum.of[s]);
            });
        }
        r[i] = (float)(1 / sqrt((double)lanes_sum(&sum) / (double)width + eps));
        const vec scale = v_set(r[i]);
        const void *in = d ? h : x;
        FOR_VECTORS(j, k, width, {
            const vec v = v_mul(v_load_as(dt, in, row + j, k), scale);
            v_store_as(dt, y, row + j, v_mul(v, v_load(w + j, k)), k);
        });
    }
}
static void rmsnorm(dtype dt, int64_t rows, int64_t width, const void *x, const void *d,
        const void *w, double eps, void *h, void *y, void *r) {
    BY_TYPE(kernels_ref.rmsnorm, rmsnorm_as, dt, rows, width, x, d, w, eps, h, y, r);
}

INLINE void rmsnorm_grad_as(dtype dt, int64_t rows, int64_t width, const void *dy, const void *x,
        const float *w, const float *r, const void *dh, void *dx, float *dw) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = i * width;
        const vec scale = v_set(r[i]);
        lanes dot = lanes_of(v_set(0));
        FOR_LANES(j, s, k, width, {
            const vec g = v_load_as(dt, dy, row + j, k);
            const vec v = v_mul(v_load_as(dt, x, row + j, k), scale);
            dot.of[s] = v_fma(v_mul(g, v_load(w + j, k)), v, dot.of[s]);
            if (dw) v_store(dw + j, v_fma(g, v, v_load(dw + j, k)), k);
        });
        const vec mean = v_set(lanes_sum(&dot) / (float)width);
        FOR_VECTORS(j, k, width, {
            const vec g = v_mul(v_load_as(dt, dy, row + j, k), v_load(w + j, k));
            const vec v = v_mul(v_load_as(dt, x, row + j, k), scale);
            vec out = v_mul(scale, v_fnma(v, mean, g));
            if (dh) out = v_add(out, v_load_as(dt, dh, row + j, k));
            v_store_as(dt, dx, row + j, out, k);
        });
    }
}
static void rmsnorm_grad(dtype dt, int64_t rows, int64_t width, const void *dy, const void *x,
        const void *w, const void *r, const void *dh, void *dx, void *dw) {
    BY_TYPE(kernels_ref.rmsnorm_grad, rmsnorm_grad_as, dt, rows, width, dy, x, w, r, dh, dx, dw);
}

// Finds the largest element. The end of a row that does not fill all lanes goes element by element.
INLINE float largest(const float *x, int64_t n) {
    const int64_t whole = n / LANES * LANES;
    lanes top = lanes_of(v_set(-INFINITY));
    FOR_LANES(j, s, k, whole, { top.of[s] = v_max(top.of[s], v_load(x + j, k)); });
    const float of_lanes = lanes_top(&top);
    float max = -INFINITY;
    for (int64_t j = whole; j < n; j++)
        max = x[j] > max ? x[j] : max;
    return of_lanes > max ? of_lanes : max;
}

// Computes x = exp(x - max) and returns the sum.
INLINE double exp_row(float *x, int64_t n, float max) {
    const int64_t whole = n / LANES * LANES;
    const vec top = v_set(max);
    lanes sum = lanes_of(v_set(0));
    double tail = 0;
    FOR_LANES(j, s, k, whole, {
        const vec e = v_exp(v_sub(v_load(x + j, k), top));
        v_store(x + j, e, k);
        sum.of[s] = v_add(sum.of[s], e);
    });
    FOR_VECTORS(j, k, n - whole,
            { v_store(x + whole + j, v_exp(v_sub(v_load(x + whole + j, k), top)), k); });
    for (int64_t j = whole; j < n; j++)
        tail += (double)x[j];
    return (double)lanes_sum(&sum) + tail;
}

static double exponents(dtype dt, int64_t n, void *x, double *max) {
    if (dt == DT_F64) return kernels_ref.exponents(dt, n, x, max);
    const float top = largest(x, n);
    *max = (double)top;
    return exp_row(x, n, top);
}

INLINE void scaled_as(dtype dt, int64_t n, const float *x, double factor, void *y) {
    const vec by = v_set((float)factor);
    FOR_VECTORS(j, k, n, { v_store_as(dt, y, j, v_mul(v_load(x + j, k), by), k); });
}
static void scaled(dtype dt, int64_t n, const void *x, double factor, void *y) {
    BY_TYPE(kernels_ref.scaled, scaled_as, dt, n, x, factor, y);
}

// Three passes over a row that stays in the cache: maximum, exponentials and their sum, result.
static double cross_entropy(dtype dt, int64_t n, void *logits, int64_t label, double scale,
        void *d) {
    if (dt == DT_F64) return kernels_ref.cross_entropy(dt, n, logits, label, scale, d);
    float *row = logits;
    const double own = (double)row[label];
    double max;
    const double total = exponents(dt, n, row, &max);
    if (d) {
        const double own_p = (double)row[label] / total;
        scaled(dt, n, row, scale / total, d);
        put(dt, d, label, scale * (own_p - 1));
    }
    return max + drv_log(total) - own;
}
