// The second part of attention's gradient: adds the sums that attention_backward.h stored in
// `part`, chunks and heads in a fixed order. The result is dqkv, rounded once, or is added to sums
// over other parts of the row.
#pragma once
#include "kernels/levels/attention_backward.h"

// The target of sums: rows of dqkv, to which they are rounded, or of an fp32 array, to which they
// are added.
typedef struct sum_target {
    dtype dt;
    void *rounded;
    float *added; // NULL: `rounded`
    int64_t at;   // element
} sum_target;

INLINE void put_sum(vec sum, int64_t j, int k, sum_target to) {
    if (to.added)
        v_store(to.added + to.at + j, v_add(v_load(to.added + to.at + j, k), sum), k);
    else
        v_store_as(to.dt, to.rounded, to.at + j, sum, k);
}

// Adds n_parts vectors in order; they are `apart` floats apart.
INLINE vec chain_of(const float *part, int64_t n_parts, int64_t apart, int k) {
    vec sum = n_parts > 0 ? v_load(part, k) : v_set(0);
    for (int64_t i = 1; i < n_parts; i++)
        sum = v_add(sum, v_load(part + i * apart, k));
    return sum;
}

// Adds n_parts rows of d floats.
INLINE void sum_parts(const float *part, int64_t n_parts, int64_t apart, int64_t d, sum_target to) {
    FOR_VECTORS(j, k, d, { put_sum(chain_of(part + j, n_parts, apart, k), j, k, to); });
}

// The same in equal reduction blocks, each added in order, and then in the tree of comm/join.h:
// complete subtrees wait for their neighbours like the bits of a binary counter.
INLINE void sum_blocks(const float *part, int64_t n_parts, int64_t blocks, int64_t apart, int64_t d,
        sum_target to) {
    enum { MAX_OPEN = 32 };
    const int64_t each = n_parts / blocks;
    FOR_VECTORS(j, k, d, {
        vec open[MAX_OPEN];
        for (int64_t block = 0; block < blocks; block++) {
            int level = 0;
            vec sum = chain_of(part + j + block * each * apart, each, apart, k);
            for (; block >> level & 1; level++)
                sum = v_add(open[level], sum);
            open[level] = sum;
        }
        int level = __builtin_ctzll((unsigned long long)blocks);
        vec sum = open[level++];
        for (; blocks >> level; level++)
            if (blocks >> level & 1) sum = v_add(open[level], sum);
        put_sum(sum, j, k, to);
    });
}

INLINE sum_target target_of(dtype dt, const attention_args *args, int64_t t, int64_t head) {
    if (args->dqkv)
        return (sum_target){args->dqkv_is_acc ? DT_F32 : dt, args->dqkv, NULL,
                element_of(args, t, head)};
    const int64_t d = args->head_dim, kv = args->n_kv_heads;
    if (head < args->n_heads)
        return (sum_target){dt, NULL, args->dq, (t * args->n_heads + head) * d};
    head -= args->n_heads;
    return (sum_target){dt, NULL, head < kv ? args->dk : args->dv, (t * kv + head % kv) * d};
}

// Adds the parts of a query head: those of the chunks of keys that a token may see.
INLINE void sum_queries(dtype dt, const attention_args *args, span tokens, int64_t head) {
    const int64_t d = args->head_dim, array = args->seq * d, chunk = chunk_of(args);
    // Chunks before the first one that the block sees, and chunks without a key, have no sums.
    const int64_t n_chunks = div_up(args->seq, chunk), key = first_key(args, tokens.begin),
                  first = key < args->seq ? key / chunk : n_chunks;
    const float *part = args->part + (head * (attention_grad_chunks(args) + 2) + first) * array;
    for (int64_t t = tokens.begin; t < tokens.end; t++) {
        const int64_t last = (args->first + t) / chunk, // it sees no chunk of later keys
                end = last + 1 < n_chunks ? last + 1 : n_chunks;
        sum_parts(part + t * d, end - first, array, d, target_of(dt, args, t, head));
    }
}

// Adds the parts of a head of keys or values, from `part` on, over the query heads of its group.
INLINE void sum_keys(dtype dt, const attention_args *args, span tokens, const float *part,
        int64_t head) {
    const int64_t n_rep = args->n_heads / args->n_kv_heads, d = args->head_dim,
                  apart = (attention_grad_chunks(args) + 2) * args->seq * d;
    for (int64_t t = tokens.begin; t < tokens.end; t++) {
        const sum_target to = target_of(dt, args, t, head);
        if (args->blocks > 1)
            sum_blocks(part + t * d, n_rep, args->blocks, apart, d, to);
        else
            sum_parts(part + t * d, n_rep, apart, d, to);
    }
}

// Computes dqkv of the tokens of a unit, head by head.
INLINE void attention_sum(dtype dt, const attention_args *args, int64_t unit) {
    const int64_t n_chunks = attention_grad_chunks(args), array = args->seq * args->head_dim,
                  n_rep = args->n_heads / args->n_kv_heads, begin = unit * BLOCK,
                  left = args->seq - begin;
    const span tokens = {begin, begin + (left < BLOCK ? left : BLOCK)};
    for (int64_t head = 0; head < args->n_heads; head++)
        sum_queries(dt, args, tokens, head);
    for (int64_t g = 0; g < args->n_kv_heads; g++) {
        const float *dk = args->part + (g * n_rep * (n_chunks + 2) + n_chunks) * array;
        sum_keys(dt, args, tokens, dk, key_head(args, g));
        sum_keys(dt, args, tokens, dk + array, value_head(args, g));
    }
}
