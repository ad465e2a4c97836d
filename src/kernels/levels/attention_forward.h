// Attention forward: FlashAttention-2 (arXiv:2307.08691) with causal and document masks and grouped
// heads. A unit is BLOCK queries of all heads of a group, which share their keys and values:
//
//     for each block of BLOCK keys that a query of the unit sees, strip by strip of its queries
//         scores = q k^T                       [BLOCK][BLOCK], of one head after the other
//         p = exp(scores - largest so far)     p words; o and sum shrink when the largest grows
//         o += p v
//     o /= sum;  lse = largest + log(sum)
//
// Legend: q queries; k keys; v values; p weights; o output.
// Packed (ld: head_dim rounded up to ROW_PAD; a word is 1 float or 2 bf16, words.h):
//
//     q   [n_rep][BLOCK][ld]       operand A, words along head_dim
//     kt  [head_dim words][BLOCK]  operand B of q k^T: a column per key
//     v   [BLOCK words][ld]        operand B of p v: a row per key, or per two keys as pairs
//     p   [BLOCK][BLOCK words]     operand A, words along the keys; floats: in place of scores
#pragma once
#include "base/elementary.h"
#include "kernels/levels/attention_tile.h"

typedef struct forward_unit {
    const attention_args *args;
    int64_t group, n_rep; // query heads of the group: n_rep from group * n_rep on
    int64_t q0, n_q;      // queries
    int64_t ld;
    float scale; // of scores before powers of 2 are taken
    uint32_t *q, *kt, *v, *p;
    float *scores, *o, *max, *sum; // max: of scores * scale
} forward_unit;

// Describes a unit, without its scratch.
INLINE forward_unit forward_unit_of(const attention_args *args, int64_t unit) {
    const int64_t n_blocks = attention_units(args) / args->n_kv_heads;
    forward_unit u = {.args = args, .n_rep = args->n_heads / args->n_kv_heads};
    u.group = unit % args->n_kv_heads;
    u.q0 = (n_blocks - 1 - unit / args->n_kv_heads) * BLOCK; // late queries first: most keys
    u.n_q = rows_of_block(args, u.q0);
    u.scale = LOG2_E / sqrtf((float)args->head_dim);
    return u;
}

// Returns the keys that the unit may see, from the beginning of a block on.
INLINE span keys_of_unit(const forward_unit *u) {
    const int64_t end = u->args->first + u->q0 + u->n_q, n_keys = attention_keys(u->args),
                  earliest = attention_earliest(u->args, u->q0);
    return (span){earliest > 0 ? earliest / BLOCK * BLOCK : 0, end < n_keys ? end : n_keys};
}

INLINE forward_unit place_forward(const arithmetic *by, const attention_args *args, int64_t unit,
        void *scratch) {
    forward_unit u = forward_unit_of(args, unit);
    u.ld = round_up(args->head_dim, ROW_PAD);
    u.q = scratch;
    u.kt = u.q + u.n_rep * BLOCK * u.ld;
    u.v = u.kt + BLOCK * u.ld;
    u.scores = (float *)(void *)(u.v + BLOCK * u.ld);
    u.o = u.scores + BLOCK * BLOCK;
    u.max = u.o + u.n_rep * BLOCK * u.ld;
    u.sum = u.max + u.n_rep * BLOCK;
    u.p = (uint32_t *)(void *)(by->per_word == 1 ? u.scores : u.sum + u.n_rep * BLOCK);
    return u;
}

// Updates the largest score of each row with a span of the keys; keep: the factors for the previous
// sums.
INLINE void raise_tops(const forward_unit *unit, int64_t row, int64_t n_rows, span keys,
        float keep[WIDTH]) {
    const float *scores = unit->scores + row % BLOCK * BLOCK + keys.begin;
    vec tops[WIDTH];
    for (int64_t i = 0; i < WIDTH; i++) {
        lanes top = lanes_of(v_set(-INFINITY));
        if (i < n_rows)
            FOR_LANES(j, s, k, keys.end - keys.begin,
                    { top.of[s] = v_max(top.of[s], v_load(scores + i * BLOCK + j, k)); });
        tops[i] = lanes_fold(v_max, &top);
    }
    float before[WIDTH], *now = unit->max + row;
    v_store(before, v_load(now, WIDTH), WIDTH);
    const vec top = v_mul(v_joins(v_max, tops), v_set(unit->scale)),
              next = v_max(top, v_load(now, WIDTH)); // the latter if one is NaN
    v_store(keep, v_exp2(v_sub(v_load(now, WIDTH), next)), WIDTH);
    v_store(now, next, WIDTH);
    for (int i = 0; i < WIDTH; i++)
        if (before[i] == now[i]) keep[i] = 1;
}

INLINE bool has_nan(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (x[i] != x[i]) return true;
    return false;
}

// Turns the scores of WIDTH rows from `row` on, of which at least n_rows exist, into weights of a
// span of the keys. `row` counts queries of all heads. Rows that do not exist have sums as well.
INLINE void softmax_rows(const arithmetic *by, const forward_unit *unit, int64_t row,
        int64_t n_rows, span keys) {
    const int64_t row_words = BLOCK / by->per_word, n = keys.end - keys.begin;
    float keep[WIDTH], *sum = unit->sum + row;
    raise_tops(unit, row, n_rows, keys, keep);
    vec parts[WIDTH];
    for (int64_t i = 0; i < WIDTH; i++) {
        const float *scores = unit->scores + (row % BLOCK + i) * BLOCK + keys.begin;
        uint32_t *p = unit->p + (row % BLOCK + i) * row_words + keys.begin / by->per_word;
        const float top = unit->max[row + i];
        lanes part = lanes_of(v_set(0));
        // Either no key of this block is seen, or every seen key has a score of NaN, which v_max
        // drops beside hidden ones.
        if (i < n_rows && top == -INFINITY && !has_nan(scores, n)) {
            memset(p, 0, sizeof *p * (size_t)(n / by->per_word));
        } else if (i < n_rows) {
            const vec minus_max = v_set(-top), factor = v_set(unit->scale);
            FOR_LANES(j, s, k, n, {
                const vec e = v_exp2(v_fma(v_load(scores + j, k), factor, minus_max));
                part.of[s] = v_add(part.of[s], e);
                put_along(by, p + j / by->per_word, e);
            });
        }
        parts[i] = lanes_fold(v_add, &part);
    }
    const vec kept = v_mul(v_load(sum, WIDTH), v_load(keep, WIDTH));
    v_store(sum, v_add(kept, v_joins(v_add, parts)), WIDTH);
    for (int64_t i = 0; i < WIDTH && i < n_rows; i++) {
        float *o = unit->o + (row + i) * unit->ld;
        for (int64_t j = 0; j < unit->ld && keep[i] < 1; j += WIDTH)
            v_store(o + j, v_mul(v_set(keep[i]), v_load(o + j, WIDTH)), WIDTH);
    }
}

// The queries of a strip, head by head, and the keys that they see.
INLINE void forward_strip(const arithmetic *by, product_function *product, const forward_unit *unit,
        int64_t k0, const query_strip *queries) {
    const int64_t row_words = BLOCK / by->per_word, first = queries->keys.begin / by->per_word,
                  n_keys = queries->keys.end - queries->keys.begin;
    if (n_keys == 0) return;
    for (int64_t h = 0; h < unit->n_rep; h++) {
        const int64_t row = h * BLOCK + queries->row;
        const words_a q = {unit->q + row * unit->ld, unit->ld, 1};
        const sums scores = {unit->scores + queries->row * BLOCK + queries->keys.begin, BLOCK};
        product(queries->n_rows, n_keys, words_of(by, unit->args->head_dim), q,
                (words_b){unit->kt + queries->keys.begin, BLOCK}, scores, false);
        mask_rows(unit->args, unit->q0, k0, queries, unit->scores);
        for (int64_t i = 0; i < queries->n_rows; i += WIDTH)
            softmax_rows(by, unit, row + i, queries->n_rows - i, queries->keys);
        const words_a p = {unit->p + queries->row * row_words + first, row_words, 1};
        const sums o = {unit->o + row * unit->ld, unit->ld};
        product(queries->n_rows, unit->ld, n_keys / by->per_word, p,
                (words_b){unit->v + first * unit->ld, unit->ld}, o, true);
    }
}

INLINE void forward_keys(const arithmetic *by, product_function *product, const forward_unit *unit,
        int64_t k0) {
    const attention_args *args = unit->args;
    const int64_t n_k = keys_of_block(args, k0);
    query_strip strips[MAX_STRIPS];
    const int n_strips = strips_of_block(args, STRIP, unit->q0, unit->n_q, k0, strips);
    if (n_strips == 1 && strips[0].keys.end == 0) return; // all of it is hidden
    const operand keys = operand_of(args, args->keys, key_head(args, unit->group), unit->group, k0),
                  values = operand_of(args, args->values, value_head(args, unit->group),
                          unit->group, k0);
    pack_transposed(by, BLOCK, keys.m, keys.at, n_k, args->head_dim, unit->kt);
    pack_tokens(by, args, values.m, values.at, n_k, BLOCK, unit->v, unit->ld);
    for (int i = 0; i < n_strips; i++)
        forward_strip(by, product, unit, k0, &strips[i]);
}

// Returns the sums of a row from column j on, as far as a vector.
typedef const float *o_function(const forward_unit *u, int64_t row, int64_t j);
INLINE const float *o_in_rows(const forward_unit *u, int64_t row, int64_t j) {
    return u->o + row * u->ld + j;
}

INLINE void store_outputs(const arithmetic *by, o_function *o_at, const forward_unit *u) {
    const attention_args *args = u->args;
    for (int64_t h = 0; h < u->n_rep; h++)
        for (int64_t i = 0; i < u->n_q; i++) {
            const int64_t r = h * BLOCK + i, head = u->group * u->n_rep + h, t = u->q0 + i;
            const int64_t at = t * attention_o_width(args) + head * args->head_dim;
            const vec share = v_set(u->sum[r] == 0 ? 0 : 1 / u->sum[r]); // 0: it sees no key
            FOR_VECTORS(j, k, args->head_dim, {
                const vec mean = v_mul(share, v_load(o_at(u, r, j), k));
                if (args->o_is_acc)
                    v_store((float *)args->o + at + j, mean, k);
                else
                    v_store_as(by->dt, args->o, at + j, mean, k);
            });
        }
}

// A separate loop, so that the latencies of the logarithms overlap.
INLINE void store_lse(const forward_unit *u) {
    for (int64_t h = 0; h < u->n_rep; h++) {
        const float *max = u->max + h * BLOCK, *sum = u->sum + h * BLOCK;
        float *lse =
                (float *)u->args->lse + (u->group * u->n_rep + h) * u->args->lse_stride + u->q0;
        for (int64_t i = 0; i < u->n_q; i++)
            lse[i] = max[i] / LOG2_E + (float)drv_log((double)sum[i]);
    }
}

INLINE void attention_forward(const arithmetic *by, product_function *product,
        const attention_args *args, int64_t unit, void *scratch) {
    const forward_unit u = place_forward(by, args, unit, scratch);
    const int64_t n_rows = u.n_rep * BLOCK;
    memset(u.o, 0, sizeof *u.o * (size_t)(n_rows * u.ld));
    for (int64_t r = 0; r < n_rows; r++)
        u.max[r] = -INFINITY, u.sum[r] = 0;
    for (int64_t h = 0; h < u.n_rep; h++)
        pack_rows(by, matrix_of_qkv(args), element_of(args, u.q0, u.group * u.n_rep + h), u.n_q,
                args->head_dim, u.q + h * BLOCK * u.ld, u.ld);
    const span keys = keys_of_unit(&u);
    for (int64_t k0 = keys.begin; k0 < keys.end; k0 += BLOCK)
        forward_keys(by, product, &u, k0);
    store_outputs(by, o_in_rows, &u);
    if (args->lse) store_lse(&u);
}
