// AdamW on state stored in bf16, and sums of gradients in bf16: computed in fp32 registers, rounded
// stochastically when stored. The random words are exactly those of base/stochastic.h.
#pragma once
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/levels/elementwise.h"

INLINE ints i_mix(ints x) {
    x = i_low(i_xor(x, i_right(x, MIX_SHIFT1)), MIX_FACTOR1);
    x = i_low(i_xor(x, i_right(x, MIX_SHIFT2)), MIX_FACTOR2);
    return i_xor(x, i_right(x, MIX_SHIFT3));
}

// Returns the first words of elements by->first + i and those after it.
INLINE ints first_words(const rounding *by, int64_t i) {
    return i_mix(i_xor(i_count(by->first + (uint32_t)i), i_set(by->a)));
}

INLINE void v_store_rounded(dtype dt, void *p, int64_t i, vec x, ints bits, int n) {
    if (dt == DT_BF16)
        v_store_bf16_by((uint16_t *)p + i, x, bits, n);
    else
        v_store((float *)p + i, x, n);
}

INLINE void adamw_rounded_as(dtype weight, dtype moments, dtype grad, int64_t n, void *weights,
        void *mean, void *square, void *grads, const adamw_args *args, const rounding *by,
        uint16_t *w) {
    const adamw_vectors numbers = adamw_vectors_of(args);
    FOR_VECTORS(j, k, n, {
        const ints word1 = first_words(by, j), word2 = i_mix(i_add(word1, i_set(by->b)));
        vec mi = v_load_as(moments, mean, j, k), vi = v_load_as(moments, square, j, k);
        const vec pi = adamw_of(&numbers, v_load_as(grad, grads, j, k), &mi, &vi,
                v_load_as(weight, weights, j, k));
        v_store_rounded(moments, mean, j, mi, word1, k);
        v_store_rounded(moments, square, j, vi, i_right(word1, 16), k);
        v_store_rounded(weight, weights, j, pi, word2, k);
        v_store_as(grad, grads, j, v_set(0), k);
        if (w) v_store_bf16(w + j, pi, k);
    });
}

// A constant per combination of types.
static void adamw_rounded(const adamw_types *types, int64_t n, void *p, void *m, void *v, void *g,
        const adamw_args *args, const rounding *by, uint16_t *w) {
    const dtype weight = types->p, moments = types->moments;
    if (weight == DT_F64)
        kernels_ref.adamw_rounded(types, n, p, m, v, g, args, by, w);
    else if (weight == DT_BF16 && moments == DT_BF16 && types->g == DT_BF16)
        adamw_rounded_as(DT_BF16, DT_BF16, DT_BF16, n, p, m, v, g, args, by, NULL);
    else if (weight == DT_BF16 && moments == DT_BF16)
        adamw_rounded_as(DT_BF16, DT_BF16, DT_F32, n, p, m, v, g, args, by, NULL);
    else if (weight == DT_BF16)
        adamw_rounded_as(DT_BF16, DT_F32, types->g, n, p, m, v, g, args, by, NULL);
    else if (moments == DT_BF16 && types->g == DT_BF16)
        adamw_rounded_as(DT_F32, DT_BF16, DT_BF16, n, p, m, v, g, args, by, w);
    else if (moments == DT_BF16)
        adamw_rounded_as(DT_F32, DT_BF16, DT_F32, n, p, m, v, g, args, by, w);
    else
        adamw_rounded_as(DT_F32, DT_F32, types->g, n, p, m, v, g, args, by, w);
}

static void add_rounded(dtype dt, int64_t n, const void *x, void *sum, const rounding *by) {
    if (dt != DT_BF16) {
        kernels_ref.add_rounded(dt, n, x, sum, by);
        return;
    }
    FOR_VECTORS(j, k, n, {
        const vec both = v_add(v_load_as(DT_BF16, sum, j, k), v_load((const float *)x + j, k));
        v_store_bf16_by((uint16_t *)sum + j, both, first_words(by, j), k);
    });
}
