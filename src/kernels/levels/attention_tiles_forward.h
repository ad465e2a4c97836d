// Attention forward by tile registers, in the units and blocks of keys of attention_forward.h. A
// step is one strip of queries of one head. While the vector unit computes the weights of a step,
// the tile registers compute the scores of the next step and the product of weights and values of
// the previous one.
//
// The largest score of a row is rounded up so that its exponential is a power of 2. It is raised
// only if a later score is so much larger that sums of a block would exceed LARGE: then o and sum
// are scaled by a power of 2, which is exact. A row's sum stays in lanes until its end.
#pragma once
#include "kernels/levels/attention_forward.h"
#include "kernels/levels/attention_tiles.h"

static const float LARGE = 256, NO_TOP = -1e30f; // of a row that has seen no key

// Blocks of keys that are packed at a time: of heads of 128, 256 KiB with their values.
enum { FORWARD_RUN = 8, STEP_SCORES = TILE_STRIP * BLOCK };

typedef struct forward_step {
    query_strip queries;
    int64_t k0;
    int block;     // of the run
    int64_t row;   // the first of its queries, of all heads
    float *scores; // p in their place: words of a row from its first key on
} forward_step;

typedef struct tiles_forward {
    forward_unit u; // kt, v: a run; scores: three steps; sum: lanes; o: squares
    int64_t groups;
    tile_queue queue;
} tiles_forward;

INLINE tiles_forward tiles_forward_of(const attention_args *args, int64_t unit, void *scratch) {
    const int64_t groups = head_groups(args);
    tiles_forward f = {.groups = groups};
    forward_unit *u = &f.u;
    *u = forward_unit_of(args, unit);
    u->ld = groups * TILE_GROUP;
    u->scores = (float *)(void *)aligned(scratch);
    u->o = u->scores + 3 * STEP_SCORES;
    u->sum = u->o + u->n_rep * BLOCK * u->ld;
    u->max = u->sum + u->n_rep * BLOCK * LANES;
    u->q = (uint32_t *)(void *)(u->max + u->n_rep * BLOCK);
    u->kt = u->q + square_words(u->n_rep * BLOCK, groups);
    u->v = u->kt + FORWARD_RUN * square_words(BLOCK, groups);
    return f;
}

INLINE void queue_scores(tiles_forward *job, const forward_step *step) {
    const int64_t strip_words = square_words(TILE_SIDE, job->groups),
                  first = step->queries.keys.begin;
    tile_product *p = next_product(&job->queue);
    *p = (tile_product){.a = job->u.q + square_words(step->row, job->groups),
            .b = job->u.kt + square_words(step->block * BLOCK + first, job->groups),
            .a_strip = strip_words,
            .b_strip = strip_words,
            .n_groups = job->groups,
            .c = step->scores + first,
            .row = BLOCK,
            .down = TILE_SIDE * BLOCK,
            .right = TILE_SIDE,
            .n_rows = 1,
            .n_columns = (step->queries.keys.end - first) / PAIR};
    queue_product(&job->queue, p);
}

INLINE void queue_outputs(tiles_forward *job, const forward_step *step) {
    const int64_t first = step->queries.keys.begin;
    tile_product *p = next_product(&job->queue);
    *p = (tile_product){.a = (const uint32_t *)(const void *)step->scores + first,
            .b = job->u.v + step->block * square_words(BLOCK, job->groups) +
                 first / TILE_GROUP * TILE_WORDS,
            .a_strip = TILE_SIDE * BLOCK,
            .b_strip = square_words(TILE_SIDE, BLOCK_GROUPS),
            .a_line = BLOCK,
            .n_groups = (step->queries.keys.end - first) / TILE_GROUP,
            .c = job->u.o + step->row * job->u.ld,
            .row = TILE_SIDE,
            .down = TILE_SIDE * job->u.ld,
            .right = TILE_WORDS,
            .n_rows = 1,
            .n_columns = job->groups,
            .add = true};
    queue_product(&job->queue, p);
}

// Weights of row i of a step for n keys (a constant) take the place of their scores, and are added
// up. Returns false, and has changed nothing, where the largest score must be raised first, unless
// `sure`.
INLINE bool weigh_keys(const forward_unit *unit, const forward_step *step, int64_t i,
        const int64_t n, bool sure) {
    enum { MOST_WORDS = BLOCK / 2 / WIDTH };
    float *scores = step->scores + i * BLOCK + step->queries.keys.begin,
          *sum = unit->sum + (step->row + i) * LANES;
    const vec minus_top = v_set(-unit->max[step->row + i]), factor = v_set(unit->scale);
    lanes part = lanes_of(v_set(0));
    vec words[MOST_WORDS];
    bool fits = true;
#pragma GCC unroll 2
    for (int64_t j = 0; j < n; j += TILE_GROUP)
#pragma GCC unroll 4
        for (int l = 0; l < LANE_VECS; l++) {
            const float *from = scores + j + l * WIDTH;
            const vec low = tile_exp2(v_fma(v_load(from, WIDTH), factor, minus_top)),
                      high = tile_exp2(v_fma(v_load(from + TILE_SIDE, WIDTH), factor, minus_top));
            part.of[l] = v_add(part.of[l], v_add(low, high));
            words[j / TILE_GROUP * LANE_VECS + l] = v_pairs(low, high);
        }
    for (int l = 0; l < LANE_VECS; l++)
        fits &= v_all_below(part.of[l], LARGE);
    if (!fits && !sure) return false;
#pragma GCC unroll 8
    for (int64_t w = 0; w < n / 2; w += WIDTH)
        v_store(scores + w, words[w / WIDTH], WIDTH);
    for (int l = 0; l < LANE_VECS; l++)
        v_store(sum + l * WIDTH, v_add(v_load(sum + l * WIDTH, WIDTH), part.of[l]), WIDTH);
    return true;
}

INLINE bool weigh_row(const forward_unit *unit, const forward_step *step, int64_t i, bool sure) {
    return step->queries.keys.end - step->queries.keys.begin == BLOCK
                   ? weigh_keys(unit, step, i, BLOCK, sure)
                   : weigh_keys(unit, step, i, TILE_STRIP, sure);
}

// Raises the largest score of a row to that of a step. What waits may belong to its sums.
static void raise_top(tiles_forward *job, const forward_step *step, int64_t i) {
    const forward_unit *unit = &job->u;
    const span keys = step->queries.keys;
    const int64_t row = step->row + i;
    const float *scores = step->scores + i * BLOCK + keys.begin;
    float *max = &unit->max[row], *sum = unit->sum + row * LANES,
          *o = unit->o + row / TILE_SIDE * TILE_SIDE * unit->ld + row % TILE_SIDE * TILE_SIDE;
    lanes top = lanes_of(v_set(-INFINITY));
    FOR_LANES(j, l, k, keys.end - keys.begin,
            { top.of[l] = v_max(top.of[l], v_load(scores + j, k)); });
    const float next = ceilf(lanes_top(&top) * unit->scale);
    const bool begun = *max != NO_TOP;
    if (next == -INFINITY) return; // it sees none of these
    const vec keep = tile_exp2(v_set(*max - next));
    *max = next;
    if (!begun) return;
    run_all_dots(&job->queue);
    for (int64_t tile = 0; tile < unit->ld; tile += TILE_SIDE)
        for (int64_t j = 0; j < TILE_SIDE; j += WIDTH) {
            float *sums_at = o + tile * TILE_SIDE + j;
            v_store(sums_at, v_mul(keep, v_load(sums_at, WIDTH)), WIDTH);
        }
    for (int64_t j = 0; j < LANES; j += WIDTH)
        v_store(sum + j, v_mul(keep, v_load(sum + j, WIDTH)), WIDTH);
}

// Weights of a step, and meanwhile all products that wait.
static void weigh_step(tiles_forward *job, const forward_step *step) {
    const int64_t each = div_up(job->queue.n_dots, step->queries.n_rows);
    for (int64_t i = 0; i < step->queries.n_rows; i++) {
        if (job->u.max[step->row + i] == NO_TOP) raise_top(job, step, i);
        if (!weigh_row(&job->u, step, i, false)) {
            raise_top(job, step, i);
            weigh_row(&job->u, step, i, true);
        }
        run_dots(&job->queue, each);
    }
    run_all_dots(&job->queue);
}

// Steps of each of a head's strips, block after block.
INLINE int steps_of_run(const tiles_forward *job, int64_t begin, int64_t end,
        forward_step out[FORWARD_RUN * TILE_STRIPS]) {
    const forward_unit *unit = &job->u;
    query_strip strips[FORWARD_RUN][TILE_STRIPS];
    int n_strips[FORWARD_RUN], n = 0;
    for (int64_t k0 = begin, i = 0; k0 < end; k0 += BLOCK, i++)
        n_strips[i] = tile_strips(unit->args, unit->q0, unit->n_q, k0, strips[i]);
    for (int64_t row = 0; row < unit->n_q; row += TILE_STRIP)
        for (int64_t k0 = begin, block = 0; k0 < end; k0 += BLOCK, block++)
            for (int i = 0; i < n_strips[block]; i++)
                if (strips[block][i].row == row)
                    out[n++] = (forward_step){.queries = strips[block][i],
                            .k0 = k0,
                            .block = (int)block,
                            .row = row};
    return n;
}

// Step i of the run: those of one head after those of the other.
INLINE void fill_step(const tiles_forward *job, const forward_step *steps, int n, int64_t i,
        forward_step *out) {
    const forward_step *from = &steps[i % n];
    out->queries.row = from->queries.row;
    out->queries.n_rows = from->queries.n_rows;
    out->queries.keys.begin = from->queries.keys.begin;
    out->queries.keys.end = from->queries.keys.end;
    out->queries.whole = from->queries.whole;
    out->k0 = from->k0;
    out->block = from->block;
    out->row = from->row + i / n * BLOCK;
    out->scores = job->u.scores + i % 3 * STEP_SCORES;
}

// Keys begin .. end, a run.
static void forward_run(tiles_forward *job, int64_t begin, int64_t end) {
    const forward_unit *unit = &job->u;
    const attention_args *args = unit->args;
    forward_step steps[FORWARD_RUN * TILE_STRIPS];
    const int n = steps_of_run(job, begin, end, steps);
    if (n == 0) return;
    for (int64_t k0 = begin, words = 0; k0 < end;
            k0 += BLOCK, words += square_words(BLOCK, job->groups)) {
        const int64_t n_k = keys_of_block(args, k0);
        pack_lines(args, operand_of(args, args->keys, key_head(args, unit->group), unit->group, k0),
                n_k, false, unit->kt + words);
        pack_apart(args,
                operand_of(args, args->values, value_head(args, unit->group), unit->group, k0), n_k,
                unit->v + words);
    }
    forward_step step[3];
    fill_step(job, steps, n, 0, &step[0]);
    queue_scores(job, &step[0]);
    run_all_dots(&job->queue);
    for (int64_t i = 0; i < n * unit->n_rep; i++) {
        const forward_step *now = &step[i % 3];
        if (i + 1 < n * unit->n_rep) {
            fill_step(job, steps, n, i + 1, &step[(i + 1) % 3]);
            queue_scores(job, &step[(i + 1) % 3]);
        }
        if (i > 0) queue_outputs(job, &step[(i + 2) % 3]);
        mask_strip(args, unit->q0, now->k0, &now->queries, now->scores);
        weigh_step(job, now);
    }
    queue_outputs(job, &step[(n * unit->n_rep + 2) % 3]);
    run_all_dots(&job->queue);
}

INLINE const float *o_in_squares(const forward_unit *unit, int64_t row, int64_t j) {
    return unit->o + row / TILE_SIDE * TILE_SIDE * unit->ld + j / TILE_SIDE * TILE_WORDS +
           row % TILE_SIDE * TILE_SIDE + j % TILE_SIDE;
}

static void attention_by_tiles(const attention_args *args, int64_t index, void *scratch) {
    tiles_forward job = tiles_forward_of(args, index, scratch);
    const forward_unit *unit = &job.u;
    const int64_t n_rows = unit->n_rep * BLOCK;
    memset(unit->o, 0, sizeof *unit->o * (size_t)(n_rows * unit->ld));
    memset(unit->sum, 0, sizeof *unit->sum * (size_t)(n_rows * LANES));
    for (int64_t r = 0; r < n_rows; r++)
        unit->max[r] = NO_TOP;
    tiles_begin();
    for (int64_t h = 0; h < unit->n_rep; h++)
        pack_lines(args,
                (operand){matrix_of_qkv(args),
                        element_of(args, unit->q0, unit->group * unit->n_rep + h)},
                unit->n_q, true, unit->q + square_words(h * BLOCK, job.groups));
    const span keys = keys_of_unit(unit);
    for (int64_t k0 = keys.begin; k0 < keys.end; k0 += FORWARD_RUN * BLOCK)
        forward_run(&job, k0, at_most(k0 + FORWARD_RUN * BLOCK, keys.end));
    tiles_end();
    for (int64_t r = 0; r < n_rows; r++) {
        lanes sum;
        for (int l = 0; l < LANE_VECS; l++)
            sum.of[l] = v_load(unit->sum + r * LANES + l * WIDTH, WIDTH);
        unit->sum[r] = lanes_sum(&sum); // r <= r * LANES: read before
    }
    store_outputs(&wide_words, o_in_squares, unit);
    if (args->lse) store_lse(unit);
}
