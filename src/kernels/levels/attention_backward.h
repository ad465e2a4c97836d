// The gradient of attention. A unit is one query head and one chunk of keys; it goes through runs
// of ATTENTION_RUN blocks of keys, which stay in the second-level cache while the blocks of queries
// that see one of them go by. In a block that is only partly visible, only the visible strips of
// queries and keys are multiplied (attention_tile.h):
//
//     p  = exp(q k^T - lse)
//     ds = p * (d_o v^T - delta) / sqrt(head_dim)      delta = row sums of d_o * o
//     dv += p^T d_o,  dk += ds^T q,  dq += ds k
//
// A unit writes its own sums, in fp32, to part[head]; attention_grad_sum adds them up:
//
//     part[head]:  | dq of chunk 0 | dq of chunk 1 | ... | dk | dv |   each [seq, head_dim]
//
// Blocks of queries that see no key of a chunk have no dq for it, and its memory is not read.
//
// Packed (ld: head_dim rounded up to ROW_PAD; a word is 1 float or 2 bf16, words.h):
//
//     q_a, do_a   [BLOCK][row_a]      operands A of q k^T and d_o v^T, words along head_dim
//     q_b, do_b   [BLOCK words][ld]   operands B of ds^T q and p^T d_o, words along the queries
//     kt, vt      [head_dim words][BLOCK]   operands B of q k^T and d_o v^T, of each block of a run
//     k_b         [BLOCK words][ld]   operand B of ds k, likewise
//     scores, dp  [BLOCK][BLOCK]      fp32, a row per query
//     p_across, ds_across   operands A of p^T d_o and ds^T q, words along the queries
//     ds_along              operand A of ds k, words along the keys
//
// As floats q_a is q_b, do_a is do_b, and all of p and ds stand in place of scores and dp, read by
// rows or by columns. As pairs they differ, since two rows and two columns make different pairs.
#pragma once
#include "kernels/levels/attention_tile.h"

// Keys of a chunk.
INLINE int64_t chunk_of(const attention_args *args) {
    return round_up(div_up(args->seq, attention_grad_chunks(args)), BLOCK);
}

// Returns the first block of queries that may see key k0.
INLINE int64_t first_query(const attention_args *args, int64_t k0) {
    return k0 > args->first ? (k0 - args->first) / BLOCK * BLOCK : 0;
}

// Returns the first block of keys that a query of block q0 may see.
INLINE int64_t first_key(const attention_args *args, int64_t q0) {
    const int64_t earliest = attention_earliest(args, q0);
    return earliest > 0 ? earliest / BLOCK * BLOCK : 0;
}

// Packed keys and values of a block.
typedef struct packed_keys {
    uint32_t *kt, *vt, *k_b;
} packed_keys;

typedef struct backward_unit {
    const attention_args *args;
    int64_t head, group;
    int64_t first, end; // keys of the chunk
    int64_t ld, row_a;
    float scale; // of scores: 1 / sqrt(head_dim)
    const float *lse;
    float *delta, *dq, *dk, *dv;
    uint32_t *q_a, *do_a, *q_b, *do_b; // of a block of queries
    packed_keys keys[ATTENTION_RUN];   // of a run
    float *scores, *dp;
    uint32_t *p_across, *ds_across, *ds_along;
} backward_unit;

INLINE uint32_t *take_words(uint32_t **next, int64_t n) {
    uint32_t *taken = *next;
    *next += n;
    return taken;
}
INLINE float *take_floats(uint32_t **next, int64_t n) {
    return (float *)(void *)take_words(next, n);
}

// Describes a unit, without its scratch.
INLINE backward_unit backward_unit_of(const attention_args *args, int64_t unit) {
    const int64_t n_chunks = attention_grad_chunks(args), head_dim = args->head_dim;
    // The first chunks of all heads first: they have the most queries.
    const int64_t head = unit % args->n_heads, chunk = unit / args->n_heads;
    backward_unit out = {.args = args, .head = head, .ld = round_up(head_dim, ROW_PAD)};
    out.group = head / (args->n_heads / args->n_kv_heads);
    out.first = chunk * chunk_of(args);
    out.end = out.first + chunk_of(args) < args->seq ? out.first + chunk_of(args) : args->seq;
    out.scale = 1 / sqrtf((float)head_dim);
    out.lse = (const float *)args->lse + head * args->lse_stride;
    float *part = args->part + head * (n_chunks + 2) * args->seq * head_dim;
    out.dq = part + chunk * args->seq * head_dim;
    out.dk = part + n_chunks * args->seq * head_dim;
    out.dv = out.dk + args->seq * head_dim;
    return out;
}

INLINE backward_unit place_backward(const arithmetic *by, const attention_args *args, int64_t unit,
        void *scratch) {
    const int64_t block_words = BLOCK * BLOCK / by->per_word;
    backward_unit out = backward_unit_of(args, unit);
    out.row_a = by->per_word == 1 ? out.ld : round_up(words_of(by, args->head_dim), ROW_PAD);
    uint32_t *next = scratch;
    out.q_b = take_words(&next, BLOCK / by->per_word * out.ld);
    out.do_b = take_words(&next, BLOCK / by->per_word * out.ld);
    out.q_a = by->per_word == 1 ? out.q_b : take_words(&next, BLOCK * out.row_a);
    out.do_a = by->per_word == 1 ? out.do_b : take_words(&next, BLOCK * out.row_a);
    out.delta = take_floats(&next, round_up(args->seq, BLOCK));
    for (int i = 0; i < ATTENTION_RUN; i++)
        out.keys[i] = (packed_keys){take_words(&next, BLOCK * out.ld),
                take_words(&next, BLOCK * out.ld), take_words(&next, BLOCK * out.ld)};
    out.scores = take_floats(&next, BLOCK * BLOCK);
    out.dp = take_floats(&next, BLOCK * BLOCK);
    if (by->per_word == 1) {
        out.p_across = (uint32_t *)(void *)out.scores;
        out.ds_across = out.ds_along = (uint32_t *)(void *)out.dp;
    } else {
        out.p_across = take_words(&next, block_words);
        out.ds_across = take_words(&next, block_words);
        out.ds_along = take_words(&next, block_words);
    }
    return out;
}

// Computes p and ds for a span of keys from scores and dp of queries i and i + 1, of which the
// second may not exist.
INLINE void softmax_grad_rows(const arithmetic *by, const backward_unit *unit, int64_t q0,
        int64_t i, int64_t n_q, span keys) {
    const int64_t row_words = BLOCK / by->per_word;
    const vec factor = v_set(unit->scale), factor2 = v_set(unit->scale * LOG2_E);
    vec minus_lse[2], delta[2];
    for (int r = 0; r < 2; r++) {
        const int64_t t = q0 + i + r;
        const bool exists = i + r < n_q;
        minus_lse[r] = v_set(exists ? -LOG2_E * unit->lse[t] : -INFINITY);
        delta[r] = v_set(exists ? unit->delta[t] : 0);
    }
    for (int64_t j = keys.begin; j < keys.end; j += WIDTH) {
        vec p[2], ds[2];
        for (int r = 0; r < 2; r++) {
            const int64_t at = (i + r) * BLOCK + j;
            p[r] = v_exp2(v_fma(v_load(unit->scores + at, WIDTH), factor2, minus_lse[r]));
            ds[r] = v_mul(v_mul(p[r], factor), v_sub(v_load(unit->dp + at, WIDTH), delta[r]));
        }
        if (by->per_word == 2) {
            by->put_across(unit->p_across + i / 2 * BLOCK + j, p[0], p[1]);
            by->put_across(unit->ds_across + i / 2 * BLOCK + j, ds[0], ds[1]);
        }
        for (int r = 0; r < 2; r++) {
            if (by->per_word == 1) put_along(by, unit->p_across + (i + r) * BLOCK + j, p[r]);
            put_along(by, unit->ds_along + (i + r) * row_words + j / by->per_word, ds[r]);
        }
    }
}

// Clears p and ds of the keys of a block that no query of a strip sees.
INLINE void clear_unseen(const arithmetic *by, const backward_unit *u, const query_strip *queries,
        int64_t begin, int64_t end) {
    const int64_t first = queries->row / by->per_word,
                  last = round_up(queries->row + queries->n_rows, by->per_word) / by->per_word;
    for (int64_t j = begin; j < end; j += WIDTH)
        for (int64_t i = first; i < last; i++) {
            store_words(u->p_across + i * BLOCK + j, v_set(0));
            store_words(u->ds_across + i * BLOCK + j, v_set(0));
        }
}

INLINE void softmax_grad(const arithmetic *by, const backward_unit *u, int64_t q0, int64_t k0,
        const query_strip *queries) {
    const int64_t end = queries->row + queries->n_rows;
    if (end % 2) { // the other row of the last pair
        memset(u->scores + end * BLOCK, 0, sizeof(float) * BLOCK);
        memset(u->dp + end * BLOCK, 0, sizeof(float) * BLOCK);
    }
    mask_rows(u->args, q0, k0, queries, u->scores);
    for (int64_t i = queries->row; i < end; i += 2)
        softmax_grad_rows(by, u, q0, i, end, queries->keys);
    clear_unseen(by, u, queries, 0, queries->keys.begin);
    clear_unseen(by, u, queries, queries->keys.end, BLOCK);
}

// Computes p and ds of a strip of queries, and their contribution to dq.
INLINE void backward_queries(const arithmetic *by, product_function *product,
        const backward_unit *u, const packed_keys *keys, int64_t q0, int64_t k0,
        const query_strip *queries) {
    const int64_t d = u->args->head_dim, d_words = words_of(by, d), k_words = BLOCK / by->per_word,
                  row = queries->row, begin = queries->keys.begin,
                  n_keys = queries->keys.end - begin, first = begin / by->per_word;
    const bool later = k0 > u->first && k0 > first_key(u->args, q0); // dq has begun
    const words_a q_a = {u->q_a + row * u->row_a, u->row_a, 1},
                  do_a = {u->do_a + row * u->row_a, u->row_a, 1},
                  ds_along = {u->ds_along + row * k_words + first, k_words, 1};
    const sums scores = {u->scores + row * BLOCK + begin, BLOCK},
               dp = {u->dp + row * BLOCK + begin, BLOCK}, dq = {u->dq + (q0 + row) * d, d};
    product(queries->n_rows, n_keys, d_words, q_a, (words_b){keys->kt + begin, BLOCK}, scores,
            false);
    product(queries->n_rows, n_keys, d_words, do_a, (words_b){keys->vt + begin, BLOCK}, dp, false);
    softmax_grad(by, u, q0, k0, queries);
    product(queries->n_rows, d, n_keys / by->per_word, ds_along,
            (words_b){keys->k_b + first * u->ld, u->ld}, dq, later);
}

// Adds the contributions of the queries that see a strip of keys; rows of `keys` are keys.
INLINE void backward_keys(const arithmetic *by, product_function *product, const backward_unit *u,
        int64_t k0, query_strip keys, bool later) {
    const int64_t d = u->args->head_dim, first = keys.keys.begin / by->per_word,
                  n_words = words_of(by, keys.keys.end - keys.keys.begin), b_at = first * u->ld;
    const words_a p_across = {u->p_across + first * BLOCK + keys.row, 1, BLOCK},
                  ds_across = {u->ds_across + first * BLOCK + keys.row, 1, BLOCK};
    const words_b q_b = {u->q_b + b_at, u->ld}, do_b = {u->do_b + b_at, u->ld};
    const sums dv = {u->dv + (k0 + keys.row) * d, d}, dk = {u->dk + (k0 + keys.row) * d, d};
    product(keys.n_rows, d, n_words, p_across, do_b, dv, later);
    product(keys.n_rows, d, n_words, ds_across, q_b, dk, later);
}

// Turns strips of queries, each with the keys that it sees, into strips of the n_k keys, each with
// the queries from the first to the last that see it.
INLINE int strips_of_keys(const query_strip *queries, int n_queries, int64_t n_k,
        query_strip out[MAX_STRIPS]) {
    int n = 0;
    for (int64_t key = 0; key < n_k; key += STRIP) {
        const int64_t n_rows = n_k - key < STRIP ? n_k - key : STRIP;
        span seen = {0, 0};
        for (int i = 0; i < n_queries; i++) {
            if (key < queries[i].keys.begin || key >= queries[i].keys.end) continue;
            if (seen.end == 0) seen.begin = queries[i].row;
            seen.end = queries[i].row + queries[i].n_rows;
        }
        if (n > 0 && out[n - 1].keys.begin == seen.begin && out[n - 1].keys.end == seen.end)
            out[n - 1].n_rows += n_rows;
        else
            out[n++] = (query_strip){key, n_rows, seen, false};
    }
    return n;
}

INLINE void backward_block(const arithmetic *by, product_function *product, const backward_unit *u,
        const packed_keys *packed, int64_t q0, int64_t k0) {
    const int64_t n_q = rows_of_block(u->args, q0), n_k = keys_of_block(u->args, k0);
    const bool later = q0 > first_query(u->args, k0); // the sums of the block have begun
    query_strip queries[MAX_STRIPS], keys[MAX_STRIPS];
    const int n_queries = strips_of_block(u->args, STRIP, q0, n_q, k0, queries),
              n_keys = strips_of_keys(queries, n_queries, n_k, keys);
    for (int i = 0; i < n_queries; i++)
        backward_queries(by, product, u, packed, q0, k0, &queries[i]);
    for (int i = 0; i < n_keys; i++)
        backward_keys(by, product, u, k0, keys[i], later);
}

// Computes delta of the n queries from t on.
INLINE void sum_delta(const arithmetic *by, const backward_unit *unit, int64_t begin, int64_t n) {
    const attention_args *args = unit->args;
    const int64_t head_dim = args->head_dim, o_width = attention_o_width(args),
                  bytes = dtype_bytes(by->dt);
    for (int64_t t = begin; t < begin + n; t++) {
        const int64_t at = t * o_width + unit->head * head_dim, later = at + AHEAD * o_width;
        if (t + AHEAD < args->seq) {
            fetch((const char *)args->o + later * bytes, head_dim * bytes);
            fetch((const char *)args->d_o + later * bytes, head_dim * bytes);
        }
        lanes sum = lanes_of(v_set(0));
        FOR_LANES(j, s, k, head_dim, {
            const vec o = v_load_as(by->dt, args->o, at + j, k);
            sum.of[s] = v_fma(v_load_as(by->dt, args->d_o, at + j, k), o, sum.of[s]);
        });
        unit->delta[t] = lanes_sum(&sum);
    }
}

INLINE void pack_queries(const arithmetic *by, const backward_unit *unit, int64_t q0) {
    const attention_args *args = unit->args;
    const int64_t head_dim = args->head_dim, o_width = attention_o_width(args),
                  n = rows_of_block(args, q0), q_at = element_of(args, q0, unit->head),
                  do_at = q0 * o_width + unit->head * head_dim;
    const matrix qkv = matrix_of_qkv(args), d_o = {args->d_o, o_width};
    pack_tokens(by, args, qkv, q_at, n, n, unit->q_b, unit->ld);
    pack_tokens(by, args, d_o, do_at, n, n, unit->do_b, unit->ld);
    if (by->per_word == 1) return; // q_a is q_b, do_a is do_b
    pack_rows(by, qkv, q_at, n, head_dim, unit->q_a, unit->row_a);
    pack_rows(by, d_o, do_at, n, head_dim, unit->do_a, unit->row_a);
}

INLINE void pack_keys(const arithmetic *by, const backward_unit *u, int64_t k0,
        const packed_keys *to) {
    const attention_args *args = u->args;
    const int64_t d = args->head_dim, n = keys_of_block(args, k0);
    const operand keys = operand_of(args, args->keys, key_head(args, u->group), u->group, k0),
                  values = operand_of(args, args->values, value_head(args, u->group), u->group, k0);
    if (first_query(args, k0) >= args->seq || first_key(args, first_query(args, k0)) > k0) {
        // No query sees the block, which belongs to another part of the row.
        memset(u->dk + k0 * d, 0, sizeof *u->dk * (size_t)(n * d));
        memset(u->dv + k0 * d, 0, sizeof *u->dv * (size_t)(n * d));
        return;
    }
    pack_transposed(by, BLOCK, keys.m, keys.at, n, d, to->kt);
    pack_tokens(by, args, keys.m, keys.at, n, BLOCK, to->k_b, u->ld);
    pack_transposed(by, BLOCK, values.m, values.at, n, d, to->vt);
}

// Keys begin .. end, a run.
INLINE void backward_run(const arithmetic *by, product_function *product, const backward_unit *u,
        int64_t begin, int64_t end) {
    const attention_args *args = u->args;
    for (int64_t k0 = begin; k0 < end; k0 += BLOCK)
        pack_keys(by, u, k0, &u->keys[(k0 - begin) / BLOCK]);
    for (int64_t q0 = first_query(args, begin); q0 < args->seq; q0 += BLOCK) {
        const int64_t first = first_key(args, q0);
        if (first >= end) break;                                 // nor does a later one see the run
        const bool is_new = begin == u->first || first >= begin; // no run before sees them
        if (is_new) sum_delta(by, u, q0, rows_of_block(args, q0));
        pack_queries(by, u, q0);
        for (int64_t k0 = first > begin ? first : begin; k0 < end && first_query(args, k0) <= q0;
                k0 += BLOCK)
            backward_block(by, product, u, &u->keys[(k0 - begin) / BLOCK], q0, k0);
    }
}

INLINE void attention_backward(const arithmetic *by, product_function *product,
        const attention_args *args, int64_t unit, void *scratch) {
    enum { RUN = ATTENTION_RUN * BLOCK };
    const backward_unit u = place_backward(by, args, unit, scratch);
    for (int64_t k0 = u.first; k0 < u.end; k0 += RUN)
        backward_run(by, product, &u, k0, k0 + RUN < u.end ? k0 + RUN : u.end);
}
