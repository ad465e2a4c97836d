// Pipeline schedules: the published formulas for bubble and memory, every shape that exists ends,
// and broken tables are refused.
#include "harness.h"

#include <math.h>
#include <string.h>

#include "plan/pipeline.h"

enum { MAX_STAGES = 64 };

// Returns when the last task of a table ends, by the definition alone: a task begins when its rank
// has done the one before and its inputs are there.
static double reference_time(arena *a, const pipeline_schedule *table, const pipeline_cost *cost) {
    const int n_ranks = table->shape.ranks, n_stages = n_ranks * table->shape.chunks,
              n_micro = table->shape.micro_batches;
    double *end[2] = {ARENA_ARRAY(a, double, (n_stages + 2) * n_micro),
            ARENA_ARRAY(a, double, (n_stages + 2) * n_micro)};
    double *now = ARENA_ARRAY(a, double, n_ranks), last = 0; // end: by stage + 1, 0: not yet
    int *next = ARENA_ARRAY(a, int, n_ranks);
    for (int done = 0, rank = 0; done < n_ranks * table->n_tasks; rank = (rank + 1) % n_ranks)
        for (; next[rank] < table->n_tasks; next[rank]++, done++) {
            const pipeline_task *t = &table->order[rank][next[rank]];
            const int stage = pipeline_stage(&table->shape, rank, t);
            const bool back = t->work != WORK_FORWARD, weight = t->work == WORK_WEIGHT_GRAD;
            const int from = back ? stage + 1 : stage - 1;
            double begin = now[rank];
            if (!weight && from >= 0 && from < n_stages) {
                const double when = end[back][(from + 1) * n_micro + t->micro_batch];
                if (when == 0) break;
                begin = fmax(begin, when + (from % n_ranks != rank ? cost->transfer : 0));
            }
            if (back && end[0][(stage + 1) * n_micro + t->micro_batch] == 0) break;
            const double both = cost->input_grad[stage] + cost->weight_grad[stage],
                         seconds[N_WORKS] = {cost->forward[stage], both, cost->input_grad[stage],
                                 cost->weight_grad[stage]};
            now[rank] = begin + seconds[t->work];
            if (!weight) end[back][(stage + 1) * n_micro + t->micro_batch] = now[rank];
            last = fmax(last, now[rank]);
        }
    return last;
}

// Every stage alike.
static void simulate(arena *a, const pipeline_schedule *s, double forward, double input,
        double weight, pipeline_result *out) {
    static double by_stage[3][MAX_STAGES];
    const double seconds[3] = {forward, input, weight};
    for (int w = 0; w < 3; w++)
        for (int i = 0; i < MAX_STAGES; i++)
            by_stage[w][i] = seconds[w] / s->shape.chunks;
    const pipeline_cost cost = {by_stage[0], by_stage[1], by_stage[2], 0};
    OK(pipeline_check(s));
    OK(pipeline_time(a, &s->shape, &cost, out));
    assert_true(fabs(out->seconds - reference_time(a, s, &cost)) < 1e-9);
}

// Seconds beyond the work itself, from the papers.
static double bubble_seconds(const pipeline_shape *s, double forward, double input, double weight) {
    const double backward = input + weight, steps = s->ranks - 1;
    if (s->kind == PIPELINE_INTERLEAVED) return steps * (forward + backward) / s->chunks;
    if (s->kind == PIPELINE_ZB_H1) return steps * (forward + input - weight);
    return steps * (forward + backward);
}

static int peak_of_rank(const pipeline_shape *s, int rank) {
    const int n = s->micro_batches * s->chunks;
    int peak = n;
    if (s->kind == PIPELINE_1F1B) peak = s->ranks - rank;
    if (s->kind == PIPELINE_ZB_H1) peak = s->ranks;
    if (s->kind == PIPELINE_INTERLEAVED)
        peak = 2 * (s->ranks - 1 - rank) + (s->chunks - 1) * s->ranks + 1;
    return peak < n ? peak : n;
}

TEST(published_formulas) {
    static const pipeline_shape shapes[] = {
            {PIPELINE_GPIPE, 4, 1, 8, 0, false},
            {PIPELINE_GPIPE, 3, 1, 2, 0, false},
            {PIPELINE_1F1B, 4, 1, 8, 0, false},
            {PIPELINE_1F1B, 8, 1, 64, 0, false},
            {PIPELINE_1F1B, 4, 1, 2, 0, false},
            {PIPELINE_INTERLEAVED, 4, 2, 8, 0, false},
            {PIPELINE_INTERLEAVED, 8, 4, 32, 0, false},
            {PIPELINE_INTERLEAVED, 2, 3, 4, 0, false},
            {PIPELINE_ZB_H1, 4, 1, 8, 0, false},
            {PIPELINE_ZB_H1, 8, 1, 24, 0, false},
            {PIPELINE_GPIPE, 1, 1, 4, 0, false},
            {PIPELINE_1F1B, 1, 1, 1, 0, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const pipeline_shape *shape = &shapes[i];
        const double forward = 1, input = 1, weight = 1, each = forward + input + weight;
        pipeline_schedule schedule;
        pipeline_result result;
        OK(pipeline_build(a, shape, &schedule));
        simulate(a, &schedule, forward, input, weight, &result);
        const double bubble = bubble_seconds(shape, forward, input, weight);
        const double seconds = shape->micro_batches * each + bubble;
        if (fabs(result.seconds - seconds) > 1e-9 || fabs(result.bubble - bubble / seconds) > 1e-9)
            fail_msg("%s P %d V %d M %d: %g s, bubble %g, expected %g s, %g",
                    pipeline_kind_name(shape->kind), shape->ranks, shape->chunks,
                    shape->micro_batches, result.seconds, result.bubble, seconds, bubble / seconds);
        for (int rank = 0; rank < shape->ranks; rank++)
            assert_int_equal(result.peak[rank], peak_of_rank(shape, rank));
    }
}

// What is in flight has slots of its own: no two at a time the same, and no more than the peak says.
TEST(slots_are_of_one_micro_batch) {
    static const pipeline_shape shapes[] = {{PIPELINE_GPIPE, 4, 1, 8, 0, false},
            {PIPELINE_1F1B, 4, 1, 8, 0, false}, {PIPELINE_INTERLEAVED, 4, 3, 8, 0, false},
            {PIPELINE_ZB_H1, 4, 1, 8, 0, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int rank = 0; rank < shapes[i].ranks; rank++) {
            pipeline_schedule schedule;
            pipeline_result result;
            OK(pipeline_build(a, &shapes[i], &schedule));
            simulate(a, &schedule, 1, 1, 1, &result);
            const pipeline_slots slots = pipeline_find_slots(a, &schedule, rank);
            int held[3][64], sum = 0; // micro-batch + 1 by chunk and slot
            memset(held, 0, sizeof held);
            for (int t = 0; t < schedule.n_tasks; t++) {
                const pipeline_task *item = &schedule.order[rank][t];
                const int slot =
                        slots.of[item->chunk * shapes[i].micro_batches + item->micro_batch];
                int *at = &held[item->chunk][slot];
                assert_true(slot >= 0 && slot < slots.n[item->chunk]);
                assert_int_equal(*at, item->work == WORK_FORWARD ? 0 : item->micro_batch + 1);
                *at = item->work == pipeline_last_work(&shapes[i]) ? 0 : item->micro_batch + 1;
            }
            for (int v = 0; v < shapes[i].chunks; v++)
                sum += slots.n[v];
            assert_true(sum >= result.peak[rank] && sum <= shapes[i].chunks * result.peak[rank]);
            if (shapes[i].chunks == 1) assert_int_equal(sum, result.peak[rank]);
        }
}

// --- the pool of what micro-batches in flight have
typedef struct pool_case {
    pipeline_shape shape;
    int layers[4]; // by chunk: pieces
} pool_case;
enum { MAX_ITEMS = 4096, MAX_PIECES = 4 };

// Bytes of a chunk: an input of the forward pass, and of each layer what the backward pass reads
// and, if weight gradients are split off, what they read.
static void fill_bytes(const pool_case *from, int64_t *bytes) {
    for (int v = 0; v < from->shape.chunks; v++)
        for (int piece = 0; piece <= from->layers[v]; piece++) {
            int64_t *spans = &bytes[(v * MAX_PIECES + piece) * PIPELINE_SPANS];
            spans[pipeline_span(0, 0)] = piece ? 0 : 64;
            spans[pipeline_span(0, 1)] = piece ? 640 : 128;
            if (from->shape.kind != PIPELINE_ZB_H1) continue;
            spans[pipeline_span(0, 2)] = piece ? 448 : 64;
            spans[pipeline_span(1, 2)] = piece ? 320 : 128;
        }
}

// Returns when a rank does a part of a micro-batch.
static int time_of(const pipeline_schedule *s, int rank, int chunk, int micro_batch, int part) {
    static const int parts[N_WORKS] = {0, 1, 1, 2};
    int i = 0;
    while (s->order[rank][i].chunk != chunk || s->order[rank][i].micro_batch != micro_batch ||
            parts[s->order[rank][i].work] != part)
        i++;
    return i;
}

typedef struct placed_item {
    int64_t begin, end;
    int first, last;
} placed_item;

static int list_placed(const pipeline_schedule *s, int rank, const int64_t *bytes,
        const pipeline_pool *pool, placed_item *out) {
    const int m = s->shape.micro_batches, n_spans = MAX_PIECES * PIPELINE_SPANS;
    int n = 0;
    for (int i = 0; i < s->shape.chunks * m * n_spans; i++) {
        const int v = i / n_spans / m, k = i / n_spans % m, span = i % n_spans % PIPELINE_SPANS;
        const int64_t size = bytes[v * n_spans + i % n_spans],
                      begin = pipeline_offsets(s, pool, v, k)[i % n_spans];
        if (size == 0) continue;
        assert_true(n < MAX_ITEMS && begin >= 0 && begin + size <= pool->bytes);
        out[n++] = (placed_item){begin, begin + size, time_of(s, rank, v, k, span / PIPELINE_PARTS),
                time_of(s, rank, v, k, span % PIPELINE_PARTS)};
    }
    return n;
}

// No two spans that are alive at a time overlap, each pair looked at; there is little more memory
// than is alive at once.
static void check_pool(const pool_case *from, int rank) {
    static placed_item items[MAX_ITEMS];
    int64_t bytes[4 * MAX_PIECES * PIPELINE_SPANS] = {0}, most = 0;
    arena *a = arena_new("test");
    pipeline_schedule schedule;
    OK(pipeline_build(a, &from->shape, &schedule));
    fill_bytes(from, bytes);
    const pipeline_pool pool = pipeline_place(a, &schedule, rank, MAX_PIECES, bytes);
    const int n = list_placed(&schedule, rank, bytes, &pool, items);
    for (int t = 0; t < schedule.n_tasks; t++) {
        int64_t alive = 0;
        for (int i = 0; i < n; i++)
            if (items[i].first <= t && t <= items[i].last) alive += items[i].end - items[i].begin;
        if (alive > most) most = alive;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (items[i].first <= items[k].last && items[k].first <= items[i].last &&
                    items[i].begin < items[k].end && items[k].begin < items[i].end)
                fail_msg("%s, rank %d: spans overlap", pipeline_kind_name(from->shape.kind), rank);
    if (pool.bytes < most || (double)pool.bytes > 1.05 * (double)most)
        fail_msg("%s, rank %d: a pool of %lld bytes, %lld alive at once",
                pipeline_kind_name(from->shape.kind), rank, (long long)pool.bytes, (long long)most);
    arena_free(a);
}

TEST(micro_batches_share_a_pool) {
    static const pool_case cases[] = {{{PIPELINE_GPIPE, 4, 1, 6, 0, false}, {2}},
            {{PIPELINE_1F1B, 4, 1, 8, 0, false}, {3}},
            {{PIPELINE_INTERLEAVED, 4, 3, 8, 0, false}, {1, 2, 3}},
            {{PIPELINE_INTERLEAVED, 3, 4, 9, 0, false}, {3, 2, 3, 2}},
            {{PIPELINE_ZB_H1, 4, 1, 8, 0, false}, {2}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int rank = 0; rank < cases[i].shape.ranks; rank++)
            check_pool(&cases[i], rank);
}

// Llama 3.1 405B on 8 stages of 8 chunks: the first rank has 71 forwards before their backwards,
// where slots of each chunk apart would be 96.
TEST(chunks_share_a_pool) {
    const pipeline_shape shape = {PIPELINE_INTERLEAVED, 8, 8, 64, 0, false};
    pipeline_schedule schedule;
    int64_t bytes[8 * PIPELINE_SPANS] = {0};
    int apart = 0;
    OK(pipeline_build(a, &shape, &schedule));
    for (int v = 0; v < shape.chunks; v++)
        bytes[v * PIPELINE_SPANS + pipeline_span(0, 1)] = 64;
    const pipeline_slots slots = pipeline_find_slots(a, &schedule, 0);
    for (int v = 0; v < shape.chunks; v++)
        apart += slots.n[v];
    assert_int_equal(pipeline_place(a, &schedule, 0, 1, bytes).bytes, 71 * 64);
    assert_int_equal(apart, 96);
}

// A group larger than the number of ranks (arXiv:2407.21783, section 3.3.2): 10 micro-batches on 4
// ranks in groups of 5 have the formula's bubble.
TEST(free_group) {
    const pipeline_shape shape = {PIPELINE_INTERLEAVED, 4, 2, 10, 5, false};
    pipeline_schedule schedule;
    pipeline_result result;
    OK(pipeline_build(a, &shape, &schedule));
    simulate(a, &schedule, 1, 1, 1, &result);
    assert_true(fabs(result.seconds - (10 * 3 + bubble_seconds(&shape, 1, 1, 1))) < 1e-9);
}

// Of random shapes each rank does every task once, and all tables end; a stage that takes long
// and a transfer make them slower, never shorter than the work of the slowest rank.
TEST(random_shapes) {
    for (uint64_t seed = 0; seed < 400; seed++) {
        const rng_key key = {seed, RNG_TEST, 0};
        const int ranks = 1 + (int)(rng_u64(&key, 0) % 8), chunks = 1 + (int)(rng_u64(&key, 1) % 4);
        const int m = 1 + (int)(rng_u64(&key, 2) % 40);
        for (pipeline_kind kind = 0; kind < N_PIPELINE_KINDS; kind++) {
            const pipeline_shape shape = {kind, ranks, kind == PIPELINE_INTERLEAVED ? chunks : 1, m,
                    0, false};
            pipeline_schedule schedule;
            pipeline_result result;
            if (pipeline_build(a, &shape, &schedule) == DRV_OK) {
                simulate(a, &schedule, 1, 1, 1, &result);
                if (result.seconds < 3.0 * m - 1e-9 || result.bubble < -1e-9 || result.bubble >= 1)
                    fail_msg("seed %llu, %s: %g s", (unsigned long long)seed,
                            pipeline_kind_name(kind), result.seconds);
            } else {
                assert_int_equal(kind, PIPELINE_INTERLEAVED);
            }
        }
    }
}

// Returns the smallest group whose whole table ends; 0: there is none. Of an evaluation, whether
// its table ends at all.
static int smallest_group(pipeline_shape shape) {
    for (shape.group = shape.ranks; shape.group <= shape.micro_batches; shape.group++) {
        arena *a = arena_new("test");
        pipeline_schedule table;
        const bool ends =
                pipeline_build(a, &shape, &table) == DRV_OK && pipeline_check(&table) == DRV_OK;
        arena_free(a);
        if (ends) return shape.group;
    }
    return 0;
}

// Every small interleaved shape: the group that is found is the smallest one with which the ranks
// do not wait for each other, and nothing is found where there is none. All evaluations end.
TEST(groups_that_end) {
    int larger = 0, none = 0;
    for (int ranks = 2; ranks <= 5; ranks++)
        for (int chunks = 2; chunks <= 4; chunks++)
            for (int m = 1; m <= 40; m++) {
                pipeline_shape shape = {PIPELINE_INTERLEAVED, ranks, chunks, m, 0, false};
                const int expected = smallest_group(shape),
                          found = pipeline_find_group(&shape) == DRV_OK ? shape.group : 0;
                if (found != expected)
                    fail_msg("P %d V %d M %d: groups of %d, expected %d", ranks, chunks, m, found,
                            expected);
                larger += expected > ranks;
                none += expected == 0;
                pipeline_schedule table;
                shape = (pipeline_shape){PIPELINE_INTERLEAVED, ranks, chunks, m, 0, true};
                OK(pipeline_build(a, &shape, &table));
                OK(pipeline_check(&table));
            }
    assert_true(larger > 0 && none > 0);
}

// Returns seconds of a work, in thousandths so that some stages take just as long as others.
static double draw_seconds(const rng_key *key, uint64_t i) {
    return 1 + (double)(rng_u64(key, i) % 8) / 1000;
}

// Long tables, of which a part is simulated, against the reference: their stages and transfers take
// nearly or just as long as each other, so that some settle late.
TEST(long_tables) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        const rng_key key = {seed, RNG_TEST, 1};
        static const pipeline_kind kinds[] = {PIPELINE_1F1B, PIPELINE_INTERLEAVED, PIPELINE_ZB_H1};
        const pipeline_kind kind = kinds[seed % 3];
        const bool interleaved = kind == PIPELINE_INTERLEAVED;
        const int ranks = 2 + (int)(rng_u64(&key, 0) % 5),
                  chunks = interleaved ? 2 + (int)(rng_u64(&key, 1) % 3) : 1;
        const pipeline_shape shape = {kind, ranks, chunks, ranks * 200, 0, false};
        double seconds[3][MAX_STAGES];
        for (int i = 0; i < 3 * MAX_STAGES; i++)
            seconds[i / MAX_STAGES][i % MAX_STAGES] = draw_seconds(&key, 3 + (uint64_t)i);
        const pipeline_cost cost = {seconds[0], seconds[1], seconds[2],
                seed % 2 ? draw_seconds(&key, 2) / 10 : 0};
        pipeline_schedule schedule;
        pipeline_result result;
        OK(pipeline_build(a, &shape, &schedule));
        OK(pipeline_time(a, &shape, &cost, &result));
        const double expected = reference_time(a, &schedule, &cost);
        if (fabs(result.seconds / expected - 1) > 1e-11)
            fail_msg("seed %llu, %s: %.12g s, expected %.12g", (unsigned long long)seed,
                    pipeline_kind_name(kind), result.seconds, expected);
    }
}

// A shortened table begins and ends as the whole one does, and needs as much memory.
TEST(shortened_tables) {
    static const pool_case cases[] = {{{PIPELINE_1F1B, 4, 1, 61, 0, false}, {3}},
            {{PIPELINE_INTERLEAVED, 4, 3, 96, 0, false}, {1, 2, 3}},
            {{PIPELINE_INTERLEAVED, 2, 3, 50, 3, false}, {1, 2, 3}}, // the last group is short
            {{PIPELINE_INTERLEAVED, 3, 4, 84, 0, false}, {3, 2, 3, 2}},
            {{PIPELINE_ZB_H1, 4, 1, 50, 0, false}, {2}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int rank = 0; rank < cases[i].shape.ranks; rank++) {
            const pipeline_shape *shape = &cases[i].shape, few = pipeline_shortened(shape, 1);
            int64_t bytes[4 * MAX_PIECES * PIPELINE_SPANS] = {0};
            pipeline_schedule whole, part;
            OK(pipeline_build(a, shape, &whole));
            OK(pipeline_build(a, &few, &part));
            OK(pipeline_check(&part));
            fill_bytes(&cases[i], bytes);
            assert_true(few.micro_batches < shape->micro_batches);
            const int n = part.n_tasks / 2, left = shape->micro_batches - few.micro_batches;
            assert_memory_equal(part.order[rank], whole.order[rank],
                    sizeof **part.order * (size_t)(n / 2));
            for (int k = 1; k <= n / 2; k++) {
                const pipeline_task *x = &part.order[rank][part.n_tasks - k],
                                    *y = &whole.order[rank][whole.n_tasks - k];
                assert_true(x->work == y->work && x->chunk == y->chunk &&
                            x->micro_batch + left == y->micro_batch);
            }
            assert_int_equal(pipeline_place(a, &part, rank, MAX_PIECES, bytes).bytes,
                    pipeline_place(a, &whole, rank, MAX_PIECES, bytes).bytes);
        }
}

// A table that a person or a bug could write: rank 1 of two, with two tasks exchanged.
TEST(refuses_broken_tables) {
    static const struct {
        int rank, first, second;
        const char *says;
    } cases[] = {
            {1, 0, 1, "wait for each other, rank 0 at the "},
            {0, 0, 2, "wait for each other, rank 0 at the "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pipeline_shape shape = {PIPELINE_1F1B, 2, 1, 3, 0, false};
        pipeline_schedule s;
        OK(pipeline_build(a, &shape, &s));
        pipeline_task *order = s.order[cases[i].rank], task = order[cases[i].first];
        order[cases[i].first] = order[cases[i].second];
        order[cases[i].second] = task;
        FAILS(pipeline_check(&s), DRV_E_DATA, cases[i].says);
    }
}

// Rank 1 gives gradients back at once, rank 0 takes the first after all forwards: soon each has a
// send under way that the other does not take.
TEST(refuses_sends_that_wait_for_each_other) {
    const pipeline_shape shape = {PIPELINE_GPIPE, 2, 1, 8, 0, false};
    pipeline_schedule s;
    OK(pipeline_build(a, &shape, &s));
    for (int i = 0; i < s.n_tasks; i++)
        s.order[1][i] = (pipeline_task){i % 2 ? WORK_BACKWARD : WORK_FORWARD, 0, i / 2};
    FAILS(pipeline_check(&s), DRV_E_DATA, "ranks wait for each other");
}

TEST(refuses_shapes_that_do_not_exist) {
    static const struct {
        pipeline_shape shape;
        const char *says;
    } cases[] = {
            {{PIPELINE_1F1B, 4, 2, 8, 0, false}, "has one chunk per rank, not 2"},
            {{PIPELINE_INTERLEAVED, 4, 2, 3, 0, false}, "expected from 4"},
            {{PIPELINE_INTERLEAVED, 4, 2, 9, 4, false}, "leave 1"},
            {{PIPELINE_GPIPE, 0, 1, 1, 0, false}, "0 ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pipeline_schedule s;
        FAILS(pipeline_build(a, &cases[i].shape, &s), DRV_E_USAGE, cases[i].says);
    }
}
