// The second part of attention's gradient: the sums that attention_backward.h left in part become
// dqkv, rounded once. Chunks and heads are added in a fixed order.
#pragma once
#include "kernels/x86/attention_backward.h"

// dqkv[at ..] = the sum of n_parts rows of d floats, `apart` floats from one to the next.
INLINE void sum_parts(dtype dt, const float *part, int64_t n_parts, int64_t apart, int64_t d,
        void *dqkv, int64_t at) {
    FOR_VECTORS(j, k, d, {
        vec sum = v_load(part + j, k);
        for (int64_t i = 1; i < n_parts; i++)
            sum = v_add(sum, v_load(part + i * apart + j, k));
        v_store_as(dt, dqkv, at + j, sum, k);
    });
}

// dqkv of the tokens of a unit.
INLINE void attention_sum(dtype dt, const attention_args *args, int64_t unit) {
    const int64_t n_chunks = attention_grad_chunks(args), d = args->head_dim;
    const int64_t n_rep = args->n_heads / args->n_kv_heads, chunk = chunk_of(args);
    const int64_t array = args->seq * d, head_floats = (n_chunks + 2) * array;
    const int64_t begin = unit * ATTENTION_SUM_BLOCK, end = begin + ATTENTION_SUM_BLOCK;
    for (int64_t t = begin; t < end && t < args->seq; t++) {
        const float *part = args->part + t * d;
        for (int64_t h = 0; h < args->n_heads; h++) // token t sees no chunk of later keys
            sum_parts(dt, part + h * head_floats, t / chunk + 1, array, d, args->dqkv,
                    element_of(args, t, h));
        for (int64_t g = 0; g < args->n_kv_heads; g++) {
            const float *dk = part + g * n_rep * head_floats + n_chunks * array;
            sum_parts(dt, dk, n_rep, head_floats, d, args->dqkv,
                    element_of(args, t, key_head(args, g)));
            sum_parts(dt, dk + array, n_rep, head_floats, d, args->dqkv,
                    element_of(args, t, value_head(args, g)));
        }
    }
}

static void attention_sum_f32(const attention_args *args, int64_t unit) {
    attention_sum(DT_F32, args, unit);
}
static void attention_sum_bf16(const attention_args *args, int64_t unit) {
    attention_sum(DT_BF16, args, unit);
}
