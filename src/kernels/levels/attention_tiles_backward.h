// The gradient of attention by tile registers: attention_backward.h's units, runs and blocks. Of a
// block of queries a step is a strip of them and a block of keys. While p and ds of a step are
// computed, the registers multiply: scores and dp of the next one, and what p and ds of those
// before add to dq, dk and dv.
//
// Packed, as squares (gemm_tiles.h); words along the head, or as it is said:
//
//     q_a, do_a   operands A of q k^T and d_o v^T
//     q_t, do_t   operands A of dk^T = q^T ds and dv^T = d_o^T p: a line for each element of the
//                 head, words along the queries
//     kt, vt      operands B of q k^T and d_o v^T, of each block of a run
//     k_b         operand B of ds k, words along the keys, apart
//     p, ds_b     operands B of dv^T and dk^T: words along the queries
//     ds_a        operand A of ds k: words along the keys, apart
//
// Sums of a run, dk^T and dv^T, are squares too; those of a block of queries, dq, go from part and
// back to it.
#pragma once
#include "kernels/levels/attention_backward.h"
#include "kernels/levels/attention_tiles.h"

typedef struct tile_weights { // of a block
    uint32_t *p, *ds_b, *ds_a;
} tile_weights;

typedef struct tiles_backward {
    backward_unit u; // q_b and do_b: q_t and do_t; scores and dp: two steps
    int64_t groups, dq_ld;
    float *dq, *dk[ATTENTION_RUN], *dv[ATTENTION_RUN];
    float minus_lse[BLOCK], minus_delta[BLOCK]; // of a block, as p and ds take them
    tile_weights weights[2];                    // of this block and the one before
    tile_queue queue;
} tiles_backward;

typedef struct backward_step {
    query_strip queries;
    int64_t k0;
    int block; // of the run
    bool last; // of its block
    float *scores, *dp;
    const tile_weights *to;
} backward_step;
enum { MOST_STEPS = ATTENTION_RUN * TILE_STRIPS, STEP_FLOATS = TILE_STRIP * BLOCK };

INLINE void place_tiles_backward(tiles_backward *b, const attention_args *args, int64_t unit,
        void *scratch) {
    const int64_t groups = head_groups(args), packed = square_words(BLOCK, groups);
    uint32_t *next = aligned(scratch);
    b->u = backward_unit_of(args, unit);
    b->groups = groups;
    b->dq_ld = groups * TILE_GROUP + TILE_SIDE; // off the same cache sets
    b->queue = (tile_queue){0};
    b->u.q_a = take_words(&next, packed);
    b->u.do_a = take_words(&next, packed);
    b->u.q_b = take_words(&next, packed);
    b->u.do_b = take_words(&next, packed);
    for (int i = 0; i < 2; i++)
        b->weights[i] = (tile_weights){take_words(&next, BLOCK * BLOCK / 2),
                take_words(&next, BLOCK * BLOCK / 2), take_words(&next, BLOCK * BLOCK / 2)};
    b->u.scores = take_floats(&next, 2 * STEP_FLOATS);
    b->u.dp = take_floats(&next, 2 * STEP_FLOATS);
    b->dq = take_floats(&next, BLOCK * b->dq_ld);
    for (int i = 0; i < ATTENTION_RUN; i++) {
        b->u.keys[i] = (packed_keys){take_words(&next, packed), take_words(&next, packed),
                take_words(&next, packed)};
        b->dk[i] = take_floats(&next, 2 * packed);
        b->dv[i] = take_floats(&next, 2 * packed);
    }
    b->u.delta = take_floats(&next, round_up(args->seq, BLOCK));
}

// --- steps
// sums = queries times keys of a step, as they are packed.
INLINE void queue_step_sums(tiles_backward *b, const backward_step *s, const uint32_t *queries,
        const uint32_t *keys, float *to) {
    const int64_t strip_words = square_words(TILE_SIDE, b->groups), first = s->queries.keys.begin;
    tile_product *p = next_product(&b->queue);
    *p = (tile_product){.a = queries + square_words(s->queries.row, b->groups),
            .b = keys + square_words(first, b->groups),
            .a_strip = strip_words,
            .b_strip = strip_words,
            .n_groups = b->groups,
            .c = to + first,
            .row = BLOCK,
            .down = TILE_SIDE * BLOCK,
            .right = TILE_SIDE,
            .n_rows = 1,
            .n_columns = (s->queries.keys.end - first) / PAIR};
    queue_product(&b->queue, p);
}

INLINE void queue_step_scores(tiles_backward *b, const backward_step *s) {
    const packed_keys *keys = &b->u.keys[s->block];
    queue_step_sums(b, s, b->u.q_a, keys->kt, s->scores);
    queue_step_sums(b, s, b->u.do_a, keys->vt, s->dp);
}

INLINE void queue_dq(tiles_backward *b, const backward_step *s) {
    const int64_t strip_words = square_words(TILE_SIDE, BLOCK_GROUPS),
                  first = s->queries.keys.begin / TILE_GROUP * TILE_WORDS;
    tile_product *p = next_product(&b->queue);
    *p = (tile_product){.a = s->to->ds_a + square_words(s->queries.row, BLOCK_GROUPS) + first,
            .b = b->u.keys[s->block].k_b + first,
            .a_strip = strip_words,
            .b_strip = strip_words,
            .n_groups = (s->queries.keys.end - s->queries.keys.begin) / TILE_GROUP,
            .c = b->dq + s->queries.row * b->dq_ld,
            .row = b->dq_ld,
            .down = TILE_SIDE * b->dq_ld,
            .right = TILE_SIDE,
            .n_rows = 1,
            .n_columns = b->groups,
            .add = true};
    queue_product(&b->queue, p);
}

// Queues what queries from `begin` to `end` of a block, and their weights, add to the sums of a
// span of its keys.
INLINE void queue_dkeys(tiles_backward *b, span keys, int64_t begin, int64_t end,
        const uint32_t *queries, const uint32_t *weights, float *to) {
    const int64_t strip_words = square_words(TILE_SIDE, BLOCK_GROUPS),
                  first = begin / TILE_GROUP * TILE_WORDS;
    tile_product *p = next_product(&b->queue);
    *p = (tile_product){.a = queries + first,
            .b = weights + square_words(keys.begin, BLOCK_GROUPS) + first,
            .a_strip = strip_words,
            .b_strip = strip_words,
            .n_groups = div_up(end - begin, TILE_GROUP),
            .c = to + keys.begin / TILE_SIDE * TILE_WORDS,
            .row = TILE_SIDE,
            .down = BLOCK_TILES * TILE_WORDS,
            .right = TILE_WORDS,
            .n_rows = b->groups,
            .n_columns = (keys.end - keys.begin) / PAIR,
            .add = true};
    queue_product(&b->queue, p);
}

INLINE void queue_dk_and_dv(tiles_backward *b, const backward_step *s, span keys, int64_t begin,
        int64_t end) {
    queue_dkeys(b, keys, begin, end, b->u.do_b, s->to->p, b->dv[s->block]);
    queue_dkeys(b, keys, begin, end, b->u.q_b, s->to->ds_b, b->dk[s->block]);
}

// The same of all strips of a block, the last of which is `s`.
INLINE void queue_block(tiles_backward *b, const backward_step *s, const backward_step *first) {
    const query_strip *one = &first->queries, *two = &s->queries;
    const int64_t end = two->row + two->n_rows;
    if (one->keys.begin == two->keys.begin && one->keys.end == two->keys.end) {
        queue_dk_and_dv(b, s, one->keys, one->row, end);
        return;
    }
    for (int64_t k = 0; k < BLOCK; k += TILE_STRIP) {
        const bool by_one = one->keys.begin <= k && k < one->keys.end,
                   by_two = two->keys.begin <= k && k < two->keys.end;
        if (by_one || by_two)
            queue_dk_and_dv(b, s, (span){k, k + TILE_STRIP}, by_one ? one->row : two->row,
                    by_two ? end : one->row + one->n_rows);
    }
}

// p and ds of queries i and i + 1 of a step for n keys, a constant.
INLINE void weigh_pair(const tiles_backward *b, const backward_step *step, int64_t i,
        const int64_t n) {
    const int64_t row = step->queries.row + i, first = step->queries.keys.begin;
    const vec factor = v_set(b->u.scale), factor2 = v_set(b->u.scale * LOG2_E);
    for (int64_t j = first; j < first + n; j += TILE_GROUP)
#pragma GCC unroll 4
        for (int lane = 0; lane < TILE_SIDE; lane += WIDTH) {
            vec p[2][2], ds[2][2]; // of row r, in half h of a group
#pragma GCC unroll 4
            for (int at = 0; at < 4; at++) {
                const int r = at / 2, h = at % 2;
                const int64_t score = (i + r) * BLOCK + j + h * TILE_SIDE + lane;
                p[r][h] = tile_exp2(v_fma(v_load(step->scores + score, WIDTH), factor2,
                        v_set(b->minus_lse[row + r])));
                ds[r][h] = v_mul(p[r][h], v_fma(v_load(step->dp + score, WIDTH), factor,
                                                  v_set(b->minus_delta[row + r])));
            }
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                const int64_t at =
                        square_words(j + h * TILE_SIDE, BLOCK_GROUPS) + row / 2 * TILE_SIDE + lane;
                store_words(step->to->p + at, v_pairs(p[0][h], p[1][h]));
                store_words(step->to->ds_b + at, v_pairs(ds[0][h], ds[1][h]));
            }
#pragma GCC unroll 2
            for (int r = 0; r < 2; r++)
                store_words(step->to->ds_a +
                                    square_words((row + r) / TILE_SIDE * TILE_SIDE, BLOCK_GROUPS) +
                                    j / TILE_GROUP * TILE_WORDS +
                                    (row + r) % TILE_SIDE * TILE_SIDE + lane,
                        v_pairs(ds[r][0], ds[r][1]));
        }
}

// p and ds of a step, all rows of it, and meanwhile all passes that wait.
static void weigh_queries(tiles_backward *b, const backward_step *s) {
    const bool all = s->queries.keys.end - s->queries.keys.begin == BLOCK;
    const int64_t each = div_up(b->queue.n_dots * 2, TILE_STRIP);
    for (int64_t i = 0; i < TILE_STRIP; i += 2) {
        if (all)
            weigh_pair(b, s, i, BLOCK);
        else
            weigh_pair(b, s, i, TILE_STRIP);
        run_dots(&b->queue, each);
    }
    run_all_dots(&b->queue);
}

// --- blocks of queries
INLINE int steps_of_queries(const tiles_backward *b, int64_t q0, int64_t begin, int64_t end,
        backward_step out[MOST_STEPS]) {
    const attention_args *args = b->u.args;
    const int64_t first = first_key(args, q0);
    int n = 0, n_blocks = 0;
    for (int64_t k0 = first > begin ? first : begin; k0 < end && first_query(args, k0) <= q0;
            k0 += BLOCK, n_blocks++) {
        query_strip strips[TILE_STRIPS];
        const int n_strips = tile_strips(args, q0, rows_of_block(args, q0), k0, strips);
        for (int i = 0; i < n_strips; i++, n++)
            out[n] = (backward_step){.queries = strips[i],
                    .k0 = k0,
                    .block = (int)((k0 - begin) / BLOCK),
                    .last = i == n_strips - 1,
                    .scores = b->u.scores + n % 2 * STEP_FLOATS,
                    .dp = b->u.dp + n % 2 * STEP_FLOATS,
                    .to = &b->weights[n_blocks % 2]};
    }
    return n;
}

static void run_steps(tiles_backward *b, int64_t q0, const backward_step *steps, int n) {
    if (n == 0) return;
    queue_step_scores(b, &steps[0]);
    run_all_dots(&b->queue);
    for (int i = 0; i < n; i++) {
        const backward_step *s = &steps[i];
        if (i + 1 < n) queue_step_scores(b, &steps[i + 1]);
        mask_strip(b->u.args, q0, s->k0, &s->queries, s->scores);
        weigh_queries(b, s);
        queue_dq(b, s);
        if (s->last) queue_block(b, s, i > 0 && !steps[i - 1].last ? s - 1 : s);
    }
    run_all_dots(&b->queue);
}

INLINE void pack_query_block(tiles_backward *b, int64_t q0) {
    const attention_args *args = b->u.args;
    const int64_t n = rows_of_block(args, q0), o_width = attention_o_width(args);
    const operand q = {matrix_of_qkv(args), element_of(args, q0, b->u.head)},
                  d_o = {{args->d_o, o_width}, q0 * o_width + b->u.head * args->head_dim};
    pack_lines(args, q, n, true, b->u.q_a);
    pack_lines(args, d_o, n, true, b->u.do_a);
    pack_squares_transposed(args, q, n, b->u.q_b);
    pack_squares_transposed(args, d_o, n, b->u.do_b);
    for (int64_t i = 0; i < BLOCK; i++) { // p of a query that does not exist is 0
        b->minus_lse[i] = i < n ? -LOG2_E * b->u.lse[q0 + i] : -INFINITY;
        b->minus_delta[i] = i < n ? -b->u.scale * b->u.delta[q0 + i] : 0;
    }
}

// Keys begin .. end, a run, and block q0 of queries; new: dq has not begun.
static void run_queries(tiles_backward *b, int64_t q0, int64_t begin, int64_t end, bool is_new) {
    const int64_t n = rows_of_block(b->u.args, q0), d = b->u.args->head_dim;
    backward_step steps[MOST_STEPS];
    float *dq = b->u.dq + q0 * d;
    pack_query_block(b, q0);
    memset(b->dq, 0, sizeof *b->dq * (size_t)(BLOCK * b->dq_ld));
    for (int64_t i = 0; i < n && !is_new; i++)
        memcpy(b->dq + i * b->dq_ld, dq + i * d, sizeof *dq * (size_t)d);
    run_steps(b, q0, steps, steps_of_queries(b, q0, begin, end, steps));
    for (int64_t i = 0; i < n; i++)
        memcpy(dq + i * d, b->dq + i * b->dq_ld, sizeof *dq * (size_t)d);
}

// --- runs of keys
INLINE void pack_key_block(tiles_backward *b, int64_t k0, int block) {
    const backward_unit *u = &b->u;
    const attention_args *args = u->args;
    const int64_t n = keys_of_block(args, k0), sums_bytes = 4 * 2 * square_words(BLOCK, b->groups);
    const operand keys = operand_of(args, args->keys, key_head(args, u->group), u->group, k0),
                  values = operand_of(args, args->values, value_head(args, u->group), u->group, k0);
    pack_lines(args, keys, n, false, u->keys[block].kt);
    pack_lines(args, values, n, false, u->keys[block].vt);
    pack_apart(args, keys, n, u->keys[block].k_b);
    memset(b->dk[block], 0, (size_t)sums_bytes);
    memset(b->dv[block], 0, (size_t)sums_bytes);
}

// Sums of the n keys of a block, squares with a line for each element of the head, to rows.
INLINE void put_transposed(const float *from, int64_t n, int64_t d, float *to) {
    for (int64_t k = 0; k < n; k += TILE_SIDE)
        for (int64_t j = 0; j < d; j += TILE_SIDE) {
            const int64_t square = j / TILE_SIDE * BLOCK_TILES + k / TILE_SIDE;
            uint32_t transposed[TILE_WORDS];
            transpose_square(from + square * TILE_WORDS, 4 * TILE_SIDE, transposed);
            for (int64_t i = 0; i < TILE_SIDE && k + i < n; i++)
                memcpy(to + (k + i) * d + j, transposed + i * TILE_SIDE,
                        sizeof *to * (size_t)at_most(d - j, TILE_SIDE));
        }
}

static void run_keys(tiles_backward *b, int64_t begin, int64_t end) {
    const backward_unit *u = &b->u;
    const attention_args *args = u->args;
    const int64_t d = args->head_dim;
    for (int64_t k0 = begin; k0 < end; k0 += BLOCK)
        pack_key_block(b, k0, (int)((k0 - begin) / BLOCK));
    for (int64_t q0 = first_query(args, begin); q0 < args->seq; q0 += BLOCK) {
        const int64_t first = first_key(args, q0);
        if (first >= end) break;                                 // nor does a later one see the run
        const bool is_new = begin == u->first || first >= begin; // no run before sees them
        if (is_new) sum_delta(&wide_words, u, q0, rows_of_block(args, q0));
        run_queries(b, q0, begin, end, is_new);
    }
    for (int64_t k0 = begin; k0 < end; k0 += BLOCK) {
        const int64_t block = (k0 - begin) / BLOCK, n = keys_of_block(args, k0);
        put_transposed(b->dk[block], n, d, u->dk + k0 * d);
        put_transposed(b->dv[block], n, d, u->dv + k0 * d);
    }
}

static void attention_grad_by_tiles(const attention_args *args, int64_t unit, void *scratch) {
    enum { RUN = ATTENTION_RUN * BLOCK };
    tiles_backward b;
    place_tiles_backward(&b, args, unit, scratch);
    tiles_begin();
    for (int64_t k0 = b.u.first; k0 < b.u.end; k0 += RUN)
        run_keys(&b, k0, at_most(k0 + RUN, b.u.end));
    tiles_end();
}
