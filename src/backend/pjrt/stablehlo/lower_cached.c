// Prints cached_attention: attention over a key-value cache (generation).
// Legend: q queries; d head_dim.
#include "backend/pjrt/stablehlo/lower.h"

#include <math.h>

// Writes the heads of qkv from `first` on, [K, N, D], into the cache [K, capacity, D].
static hlo_value append(lowering *l, const node *n, hlo_value qkv, int64_t first, int k,
        hlo_index slot) {
    hlo_text *h = &l->h;
    static const int64_t order[] = {1, 0, 2};
    const int64_t d = n->attrs.heads.head_dim, heads = n->attrs.heads.n_kv_heads;
    hlo_value x = hlo_slice(h, qkv, 1, first * d, heads * d);
    x = hlo_transpose(h, hlo_reshape(h, x, HLO_DIMS(qkv.dim[0], heads, d)), order);
    return hlo_put(h, lower_in(l, n, k), x, 1, slot);
}

// Returns which slots of the cache a token sees: those up to its own, within its window. Every
// token sees itself.
static hlo_value visible_slots(lowering *l, hlo_value own, int window) {
    hlo_text *h = &l->h;
    const hlo_value slot = hlo_iota(h, HLO_I32, own.n_dims, own.dim, own.n_dims - 1);
    const hlo_value until = hlo_compare(h, "LE", slot, own);
    if (!window) return until;
    const hlo_value end = hlo_binary(h, "add", slot, hlo_fill(h, window, &slot));
    return hlo_binary(h, "and", until, hlo_compare(h, "GT", end, own));
}

// Computes scores of all slots of the cache, and hides the slots that a token does not see.
static void cached_attention(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    static const int64_t slots[] = {2}, to_heads[] = {1, 2, 0, 3}, to_rows[] = {2, 0, 1, 3};
    const op_attrs *attrs = &n->attrs;
    const int64_t d = attrs->heads.head_dim, kv = attrs->heads.n_kv_heads,
                  group = attrs->heads.n_heads / kv;
    const hlo_value qkv = lower_in(l, n, 0), position = lower_in(l, n, 3);
    const int64_t rows = qkv.dim[0];
    // Positions are consecutive, so the first one gives all slots.
    const hlo_index slot = {true, 0, hlo_element(h, position, 0)};
    const hlo_value keys = append(l, n, qkv, attrs->heads.n_heads, 1, slot),
                    values = append(l, n, qkv, attrs->heads.n_heads + kv, 2, slot);
    hlo_value q = hlo_slice(h, qkv, 1, 0, attrs->heads.n_heads * d);
    q = hlo_transpose(h, hlo_reshape(h, q, HLO_DIMS(rows, kv, group, d)), to_heads);
    q = hlo_reshape(h, q, HLO_DIMS(kv, group * rows, d));
    const hlo_type acc = lower_acc(l, n->in[0]);
    const hlo_value scores = hlo_scale(h, hlo_dot(h, q, keys, 1, 1, acc), 1 / sqrt((double)d));
    hlo_value like = scores;
    like.type = HLO_I32;
    const hlo_value own = hlo_broadcast(h, position, HLO_DIMS(kv, group, rows, like.dim[2]),
            (const int64_t[]){2});
    const hlo_value visible =
            visible_slots(l, hlo_reshape(h, own, 3, like.dim), attrs->attention.window);
    const hlo_value seen = hlo_select(h, visible, scores, hlo_fill(h, -__builtin_inf(), &scores));
    static const int64_t queries[] = {0, 1};
    const hlo_value max = hlo_reduce(h, "maximum", seen, 1, slots);
    const hlo_value e = hlo_unary(h, "exponential",
            hlo_binary(h, "subtract", seen, hlo_broadcast(h, max, 3, seen.dim, queries)));
    const hlo_value sum = hlo_reduce(h, "add", e, 1, slots);
    hlo_value o = hlo_dot(h, hlo_convert(h, e, qkv.type), values, 1, 0, acc);
    o = hlo_binary(h, "divide", o, hlo_broadcast(h, sum, 3, o.dim, queries));
    o = hlo_transpose(h, hlo_reshape(h, o, HLO_DIMS(kv, group, rows, d)), to_rows);
    lower_round(l, n, 0, hlo_reshape(h, o, HLO_DIMS(rows, attrs->heads.n_heads * d)));
    lower_set(l, n, 1, keys);
    lower_set(l, n, 2, values);
}

const lower_op lower_op_cached_attention = {.lower = cached_attention};
