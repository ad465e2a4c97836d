// The memory-bound kernels for one vector level (see simd.h); compiled once per level. Each public
// function picks the instance for the element type, so that loads and stores are compile-time.
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/simd.h"

// Calls f(dt, ...) with a constant dt; f64 goes to the reference.
#define BY_TYPE(dt, f, ...)                                                                        \
    do {                                                                                           \
        if ((dt) == DT_BF16)                                                                       \
            f(DT_BF16, __VA_ARGS__);                                                               \
        else                                                                                       \
            f(DT_F32, __VA_ARGS__);                                                                \
    } while (0)
#define REF_IF_F64(dt, call)                                                                       \
    if ((dt) == DT_F64) {                                                                          \
        kernels_ref.call;                                                                          \
        return;                                                                                    \
    }

INLINE void add_t(dtype dt, int64_t n, const void *a, const void *b, void *y) {
    VLOOP(j, k, n, { st(dt, y, j, v_add(ld(dt, a, j, k), ld(dt, b, j, k)), k); });
}
static void add(dtype dt, int64_t n, const void *a, const void *b, void *y) {
    REF_IF_F64(dt, add(dt, n, a, b, y))
    BY_TYPE(dt, add_t, n, a, b, y);
}

INLINE void accumulate_t(dtype dt, int64_t n, const void *x, float *acc) {
    VLOOP(j, k, n, { v_store(acc + j, v_add(v_load(acc + j, k), ld(dt, x, j, k)), k); });
}
static void accumulate(dtype dt, int64_t n, const void *x, void *acc) {
    REF_IF_F64(dt, accumulate(dt, n, x, acc))
    BY_TYPE(dt, accumulate_t, n, x, acc);
}

static void cast(dtype from, const void *x, dtype to, void *y, int64_t n) {
    if (from == DT_F32 && to == DT_BF16)
        VLOOP(j, k, n, { st(DT_BF16, y, j, ld(DT_F32, x, j, k), k); });
    else if (from == DT_BF16 && to == DT_F32)
        VLOOP(j, k, n, { st(DT_F32, y, j, ld(DT_BF16, x, j, k), k); });
    else
        kernels_ref.cast(from, x, to, y, n);
}

INLINE void rmsnorm_t(dtype dt, int64_t rows, int64_t width, const void *x, const void *d,
        const float *w, double eps, void *h, void *y, float *r) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t o = i * width;
        vf sum = v_set(0);
        if (d) {
            VLOOP(j, k, width, {
                vf v = rounded(dt, v_add(ld(dt, x, o + j, k), ld(dt, d, o + j, k)));
                st(dt, h, o + j, v, k);
                sum = v_fma(v, v, sum);
            });
        } else {
            VLOOP(j, k, width, {
                vf v = ld(dt, x, o + j, k);
                sum = v_fma(v, v, sum);
            });
        }
        r[i] = (float)(1 / sqrt((double)v_sum(sum) / (double)width + eps));
        const vf s = v_set(r[i]);
        const void *in = d ? h : x;
        VLOOP(j, k, width,
                { st(dt, y, o + j, v_mul(v_mul(ld(dt, in, o + j, k), s), v_load(w + j, k)), k); });
    }
}
static void rmsnorm(dtype dt, int64_t rows, int64_t width, const void *x, const void *d,
        const void *w, double eps, void *h, void *y, void *r) {
    REF_IF_F64(dt, rmsnorm(dt, rows, width, x, d, w, eps, h, y, r))
    BY_TYPE(dt, rmsnorm_t, rows, width, x, d, w, eps, h, y, r);
}

INLINE void rmsnorm_grad_t(dtype dt, int64_t rows, int64_t width, const void *dy, const void *x,
        const float *w, const float *r, const void *dh, void *dx, float *dw) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t o = i * width;
        const vf s = v_set(r[i]);
        vf dot = v_set(0);
        VLOOP(j, k, width, {
            vf g = ld(dt, dy, o + j, k), v = v_mul(ld(dt, x, o + j, k), s);
            dot = v_fma(v_mul(g, v_load(w + j, k)), v, dot);
            v_store(dw + j, v_fma(g, v, v_load(dw + j, k)), k);
        });
        const vf mean = v_set(v_sum(dot) / (float)width);
        VLOOP(j, k, width, {
            vf g = v_mul(ld(dt, dy, o + j, k), v_load(w + j, k));
            vf v = v_mul(ld(dt, x, o + j, k), s);
            vf out = v_mul(s, v_fnma(v, mean, g));
            if (dh) out = v_add(out, ld(dt, dh, o + j, k));
            st(dt, dx, o + j, out, k);
        });
    }
}
static void rmsnorm_grad(dtype dt, int64_t rows, int64_t width, const void *dy, const void *x,
        const void *w, const void *r, const void *dh, void *dx, void *dw) {
    REF_IF_F64(dt, rmsnorm_grad(dt, rows, width, dy, x, w, r, dh, dx, dw))
    BY_TYPE(dt, rmsnorm_grad_t, rows, width, dy, x, w, r, dh, dx, dw);
}

INLINE void rope_t(dtype dt, int64_t rows, int64_t width, int n_heads, int head_dim, const void *x,
        const float *table, bool inverse, void *y) {
    const int half = head_dim / 2;
    const vf sign = v_set(inverse ? -1.0f : 1.0f);
    for (int64_t i = 0; i < rows; i++) {
        const float *c = table + i * head_dim, *s = c + half;
        for (int h = 0; h < n_heads; h++) {
            const int64_t at = i * width + (int64_t)h * head_dim;
            VLOOP(j, k, half, {
                vf cj = v_load(c + j, k), sj = v_mul(sign, v_load(s + j, k));
                vf a = ld(dt, x, at + j, k), b = ld(dt, x, at + half + j, k);
                st(dt, y, at + j, v_fnma(b, sj, v_mul(a, cj)), k);
                st(dt, y, at + half + j, v_fma(a, sj, v_mul(b, cj)), k);
            });
        }
        if (x == y) continue;
        const int64_t from = (i * width + (int64_t)n_heads * head_dim) * dtype_bytes(dt);
        memcpy((char *)y + from, (const char *)x + from,
                (size_t)((width - (int64_t)n_heads * head_dim) * dtype_bytes(dt)));
    }
}
static void rope(dtype dt, int64_t rows, int64_t width, int n_heads, int head_dim, const void *x,
        const void *table, bool inverse, void *y) {
    REF_IF_F64(dt, rope(dt, rows, width, n_heads, head_dim, x, table, inverse, y))
    BY_TYPE(dt, rope_t, rows, width, n_heads, head_dim, x, table, inverse, y);
}

INLINE vf sigmoid(vf g) {
    return v_div(v_set(1), v_add(v_set(1), v_exp(v_sub(v_set(0), g))));
}

INLINE void swiglu_t(dtype dt, int64_t rows, int64_t width, const void *gu, void *y) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t g_at = 2 * i * width, u_at = g_at + width;
        VLOOP(j, k, width, {
            vf g = ld(dt, gu, g_at + j, k), u = ld(dt, gu, u_at + j, k);
            st(dt, y, i * width + j, v_mul(v_mul(g, sigmoid(g)), u), k);
        });
    }
}
static void swiglu(dtype dt, int64_t rows, int64_t width, const void *gu, void *y) {
    REF_IF_F64(dt, swiglu(dt, rows, width, gu, y))
    BY_TYPE(dt, swiglu_t, rows, width, gu, y);
}

INLINE void swiglu_grad_t(dtype dt, int64_t rows, int64_t width, const void *dy, const void *gu,
        void *dgu) {
    for (int64_t i = 0; i < rows; i++) {
        const int64_t g_at = 2 * i * width, u_at = g_at + width;
        VLOOP(j, k, width, {
            vf g = ld(dt, gu, g_at + j, k), u = ld(dt, gu, u_at + j, k);
            vf d = ld(dt, dy, i * width + j, k), s = sigmoid(g), gs = v_mul(g, s);
            st(dt, dgu, g_at + j, v_mul(v_mul(d, u), v_fma(gs, v_sub(v_set(1), s), s)), k);
            st(dt, dgu, u_at + j, v_mul(d, gs), k);
        });
    }
}
static void swiglu_grad(dtype dt, int64_t rows, int64_t width, const void *dy, const void *gu,
        void *dgu) {
    REF_IF_F64(dt, swiglu_grad(dt, rows, width, dy, gu, dgu))
    BY_TYPE(dt, swiglu_grad_t, rows, width, dy, gu, dgu);
}

// Three passes over a row that stays in the cache: maximum, exponentials and their sum, result.
INLINE double cross_entropy_t(dtype dt, int64_t n, float *logits, int64_t label, double scale,
        void *d) {
    const float own = logits[label];
    vf top = v_set(-INFINITY), sum = v_set(0);
    float max = -INFINITY;
    VLOOP(j, k, n, {
        vf x = v_load(logits + j, k);
        if (k == VN)
            top = v_max(top, x);
        else
            for (int q = 0; q < k; q++)
                max = logits[j + q] > max ? logits[j + q] : max;
    });
    max = fmaxf(max, v_top(top));
    const vf m = v_set(max);
    double tail = 0;
    VLOOP(j, k, n, {
        vf e = v_exp(v_sub(v_load(logits + j, k), m));
        v_store(logits + j, e, k);
        if (k == VN)
            sum = v_add(sum, e);
        else
            for (int q = 0; q < k; q++)
                tail += (double)logits[j + q];
    });
    const double total = (double)v_sum(sum) + tail;
    if (d) {
        const double own_p = (double)logits[label] / total;
        const vf f = v_set((float)(scale / total));
        VLOOP(j, k, n, { st(dt, d, j, v_mul(v_load(logits + j, k), f), k); });
        const float g = (float)(scale * (own_p - 1));
        if (dt == DT_BF16)
            ((uint16_t *)d)[label] = f32_to_bf16(g);
        else
            ((float *)d)[label] = g;
    }
    return (double)max + log(total) - (double)own;
}
static double cross_entropy(dtype dt, int64_t n, void *logits, int64_t label, double scale,
        void *d) {
    if (dt == DT_F64) return kernels_ref.cross_entropy(dt, n, logits, label, scale, d);
    if (dt == DT_BF16) return cross_entropy_t(DT_BF16, n, logits, label, scale, d);
    return cross_entropy_t(DT_F32, n, logits, label, scale, d);
}

static double sum_squares(dtype dt, int64_t n, const void *x) {
    if (dt != DT_F32) return kernels_ref.sum_squares(dt, n, x);
    double total = 0;
    for (int64_t at = 0; at < n; at += 4096) { // float within a block, double across blocks
        const int64_t m = n - at < 4096 ? n - at : 4096;
        vf s0 = v_set(0);
        VLOOP(j, k, m, {
            vf v = v_load((const float *)x + at + j, k);
            s0 = v_fma(v, v, s0);
        });
        total += (double)v_sum(s0);
    }
    return total;
}

static void adamw(dtype acc, int64_t n, void *p, void *m, void *v, void *g, const adamw_args *a,
        uint16_t *w) {
    REF_IF_F64(acc, adamw(acc, n, p, m, v, g, a, w))
    const vf scale = v_set((float)a->grad_scale), b1 = v_set((float)a->beta1),
             n1 = v_set((float)(1 - a->beta1)), b2 = v_set((float)a->beta2),
             n2 = v_set((float)(1 - a->beta2)), keep = v_set((float)(1 - a->lr * a->weight_decay)),
             step = v_set((float)(a->lr / a->c1)), root = v_set((float)(1 / sqrt(a->c2))),
             eps = v_set((float)a->eps), zero = v_set(0);
    float *pf = p, *mf = m, *vv = v, *gf = g;
    VLOOP(j, k, n, {
        vf x = v_mul(v_load(gf + j, k), scale);
        vf mi = v_fma(b1, v_load(mf + j, k), v_mul(n1, x));
        vf vi = v_fma(b2, v_load(vv + j, k), v_mul(v_mul(n2, x), x));
        vf change = v_div(v_mul(step, mi), v_fma(v_sqrt(vi), root, eps));
        vf pi = v_sub(v_mul(v_load(pf + j, k), keep), change);
        v_store(mf + j, mi, k);
        v_store(vv + j, vi, k);
        v_store(pf + j, pi, k);
        v_store(gf + j, zero, k);
        if (w) v_store_bf16(w + j, pi, k);
    });
}

const kernels SIMD_NAME(kernels) = {
#if SIMD_LEVEL == 2
        .name = "avx2",
#elif SIMD_LEVEL == 3
        .name = "avx512",
#else
        .name = "avx512_bf16",
#endif
        .add = add,
        .accumulate = accumulate,
        .cast = cast,
        .rmsnorm = rmsnorm,
        .rmsnorm_grad = rmsnorm_grad,
        .rope_table = ref_rope_table,
        .rope = rope,
        .swiglu = swiglu,
        .swiglu_grad = swiglu_grad,
        .cross_entropy = cross_entropy,
        .sum_squares = sum_squares,
        .adamw = adamw,
        .gemm = SIMD_NAME(gemm),
        .attention = SIMD_NAME(attention),
        .attention_grad = SIMD_NAME(attention_grad),
        .attention_grad_sum = SIMD_NAME(attention_grad_sum),
        .row_times_matrix = SIMD_NAME(row_times_matrix),
        .cached_attention = SIMD_NAME(cached_attention),
};
