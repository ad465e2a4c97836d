// The kernels of Muon's update that go element by element (ir/ops/muon.c). NAME_as is compiled once
// for each pair of types that occurs in runs; other pairs go to the reference.
#pragma once
#include "kernels/ref/ref.h"
#include "kernels/levels/vec.h"

INLINE void momentum_as(dtype from, dtype to, int64_t n, float *m, void *g, void *u,
        const momentum_args *args) {
    const vec decay = v_set((float)args->decay), rest = v_set((float)(1 - args->decay)),
              scale = v_set((float)args->grad_scale);
    FOR_VECTORS(j, k, n, {
        const vec x = v_mul(rest, v_mul(scale, v_load_as(from, g, j, k))),
                  mean = v_fma(decay, v_load(m + j, k), x);
        v_store(m + j, mean, k);
        v_store_as(to, u, j, v_fma(decay, mean, x), k);
        v_store_as(from, g, j, v_set(0), k);
    });
}
static void momentum(dtype acc, int64_t n, void *m, void *g, void *u, const momentum_args *args) {
    if (acc == DT_F64)
        kernels_ref.momentum(acc, n, m, g, u, args);
    else if (args->g == DT_BF16 && args->to == DT_BF16)
        momentum_as(DT_BF16, DT_BF16, n, m, g, u, args);
    else if (args->g == DT_BF16)
        momentum_as(DT_BF16, DT_F32, n, m, g, u, args);
    else if (args->to == DT_BF16)
        momentum_as(DT_F32, DT_BF16, n, m, g, u, args);
    else
        momentum_as(DT_F32, DT_F32, n, m, g, u, args);
}

INLINE void combine_as(dtype dt, dtype to, int64_t n, float factor, const void *x, const float *z,
        void *y) {
    const vec by = v_set(factor);
    FOR_VECTORS(j, k, n, {
        const vec xj = v_load_as(dt, x, j, k);
        v_store_as(to, y, j, z ? v_fma(by, xj, v_load(z + j, k)) : v_mul(by, xj), k);
    });
}
static void combine(dtype dt, dtype to, int64_t n, double factor, const void *x, const void *z,
        void *y) {
    if (dt == DT_BF16 && to == DT_BF16)
        combine_as(DT_BF16, DT_BF16, n, (float)factor, x, z, y);
    else if (dt == DT_BF16 && to == DT_F32)
        combine_as(DT_BF16, DT_F32, n, (float)factor, x, z, y);
    else if (dt == DT_F32 && to == DT_F32)
        combine_as(DT_F32, DT_F32, n, (float)factor, x, z, y);
    else
        kernels_ref.combine(dt, to, n, factor, x, z, y);
}

// Sums the whole change of p before p is rounded once, as in adamw.
INLINE void descend_f32(int64_t n, float *p, const float *o, double lr, double weight_decay,
        uint16_t *w) {
    const vec rate = v_set((float)lr), decay = v_set((float)(lr * weight_decay));
    FOR_VECTORS(j, k, n, {
        const vec old = v_load(p + j, k);
        const vec new = v_sub(old, v_fma(decay, old, v_mul(rate, v_load(o + j, k))));
        v_store(p + j, new, k);
        if (w) v_store_bf16(w + j, new, k);
    });
}
static void descend(dtype acc, int64_t n, void *p, const void *o, double lr, double weight_decay,
        uint16_t *w) {
    if (acc == DT_F64)
        kernels_ref.descend(acc, n, p, o, lr, weight_decay, w);
    else
        descend_f32(n, p, o, lr, weight_decay, w);
}
