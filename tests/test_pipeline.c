// Pipeline schedules: the published formulas for bubble and memory, every shape that exists ends,
// and broken tables are refused.
#include "harness.h"

#include <math.h>
#include <string.h>

#include "plan/pipeline.h"

enum { MAX_STAGES = 64 };

// Every stage alike.
static void simulate(arena *a, const pipeline_schedule *s, double forward, double input,
        double weight, pipeline_result *out) {
    static double by_stage[3][MAX_STAGES];
    const double seconds[3] = {forward, input, weight};
    for (int w = 0; w < 3; w++)
        for (int i = 0; i < MAX_STAGES; i++)
            by_stage[w][i] = seconds[w] / s->shape.chunks;
    const pipeline_cost cost = {by_stage[0], by_stage[1], by_stage[2], 0};
    OK(pipeline_simulate(a, s, &cost, out));
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

static void published_formulas(void **state) {
    (void)state;
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
        arena *a = arena_new("test");
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
        arena_free(a);
    }
}

// What is in flight has slots of its own: no two at a time the same, and no more than the peak says.
static void slots_are_of_one_micro_batch(void **state) {
    (void)state;
    static const pipeline_shape shapes[] = {{PIPELINE_GPIPE, 4, 1, 8, 0, false},
            {PIPELINE_1F1B, 4, 1, 8, 0, false}, {PIPELINE_INTERLEAVED, 4, 3, 8, 0, false},
            {PIPELINE_ZB_H1, 4, 1, 8, 0, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int rank = 0; rank < shapes[i].ranks; rank++) {
            arena *a = arena_new("test");
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
            arena_free(a);
        }
}

// A group larger than the number of ranks (arXiv:2407.21783, section 3.3.2): 10 micro-batches on 4
// ranks in groups of 5 have the formula's bubble.
static void free_group(void **state) {
    (void)state;
    const pipeline_shape shape = {PIPELINE_INTERLEAVED, 4, 2, 10, 5, false};
    arena *a = arena_new("test");
    pipeline_schedule schedule;
    pipeline_result result;
    OK(pipeline_build(a, &shape, &schedule));
    simulate(a, &schedule, 1, 1, 1, &result);
    assert_true(fabs(result.seconds - (10 * 3 + bubble_seconds(&shape, 1, 1, 1))) < 1e-9);
    arena_free(a);
}

// Of random shapes each rank does every task once, and all tables end; a stage that takes long
// and a transfer make them slower, never shorter than the work of the slowest rank.
static void random_shapes(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        const rng_key key = {seed, RNG_TEST, 0};
        const int ranks = 1 + (int)(rng_u64(&key, 0) % 8), chunks = 1 + (int)(rng_u64(&key, 1) % 4);
        const int m = 1 + (int)(rng_u64(&key, 2) % 40);
        for (pipeline_kind kind = 0; kind < N_PIPELINE_KINDS; kind++) {
            const pipeline_shape shape = {kind, ranks, kind == PIPELINE_INTERLEAVED ? chunks : 1, m,
                    0, false};
            arena *a = arena_new("test");
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
            arena_free(a);
        }
    }
}

// A table that a person or a bug could write: rank 1 of two, with two tasks exchanged.
static void refuses_broken_tables(void **state) {
    (void)state;
    static const struct {
        int rank, first, second;
        const char *says;
    } cases[] = {
            {1, 0, 1, "wait for each other, rank 0 at the "},
            {0, 0, 2, "wait for each other, rank 0 at the "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pipeline_shape shape = {PIPELINE_1F1B, 2, 1, 3, 0, false};
        arena *a = arena_new("test");
        pipeline_schedule s;
        OK(pipeline_build(a, &shape, &s));
        pipeline_task *order = s.order[cases[i].rank], task = order[cases[i].first];
        order[cases[i].first] = order[cases[i].second];
        order[cases[i].second] = task;
        const double seconds[2] = {1, 1};
        const pipeline_cost cost = {seconds, seconds, seconds, 0};
        pipeline_result result;
        FAILS(pipeline_simulate(a, &s, &cost, &result), DRV_E_DATA, cases[i].says);
        arena_free(a);
    }
}

// Rank 1 gives gradients back at once, rank 0 takes the first after all forwards: soon each has a
// send under way that the other does not take.
static void refuses_sends_that_wait_for_each_other(void **state) {
    (void)state;
    const pipeline_shape shape = {PIPELINE_GPIPE, 2, 1, 8, 0, false};
    arena *a = arena_new("test");
    pipeline_schedule s;
    OK(pipeline_build(a, &shape, &s));
    for (int i = 0; i < s.n_tasks; i++)
        s.order[1][i] = (pipeline_task){i % 2 ? WORK_BACKWARD : WORK_FORWARD, 0, i / 2};
    const double seconds[2] = {1, 1};
    const pipeline_cost cost = {seconds, seconds, seconds, 0};
    pipeline_result result;
    FAILS(pipeline_simulate(a, &s, &cost, &result), DRV_E_DATA, "ranks wait for each other");
    arena_free(a);
}

static void refuses_shapes_that_do_not_exist(void **state) {
    (void)state;
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
        arena *a = arena_new("test");
        pipeline_schedule s;
        FAILS(pipeline_build(a, &cases[i].shape, &s), DRV_E_USAGE, cases[i].says);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_formulas),
            cmocka_unit_test(slots_are_of_one_micro_batch), cmocka_unit_test(free_group),
            cmocka_unit_test(random_shapes), cmocka_unit_test(refuses_broken_tables),
            cmocka_unit_test(refuses_sends_that_wait_for_each_other),
            cmocka_unit_test(refuses_shapes_that_do_not_exist)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
