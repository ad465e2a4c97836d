// The search for layouts against planning every variant: the same first five meshes, and the same
// of all meshes, on twenty small models, numbers of ranks, memories and links drawn from a fixed
// seed.
#include "harness.h"

#include <math.h>

#include "base/parallel.h"
#include "search/layout_search.h"
#include "search/layout_time.h"
#include "search/stage_plans.h"

enum { CASES = 20, TOP = 5, ALL = 256 };
// Nine of ten estimates are so close to their plans, and all of them so close. A bucket of messages
// of 1 MiB, of some 10 MB, is not estimated for each program, and micro-batches of more rows than
// the largest sample are extrapolated.
#define CLOSE 0.05
#define FAR   0.15

static device_profile draw_device(const rng_key *key, uint64_t i) {
    static const double links[] = {1e8, 1e9, 1e10};
    const link_speeds speeds = {links[rng_u64(key, i) % 3], 1e8, 2};
    device_profile d = device_profile_by_hand("drawn", 2e10, 0, &speeds);
    d.bytes_per_s = 1e10;
    d.reached_products = 0.70;
    d.reached_attention = 0.38;
    d.reached_memory = d.reached_inside = 0.78;
    d.reached_between = 0.59;
    d.small_product = (double)(rng_u64(key, i + 1) % 64);
    d.message_s = 1e-5;
    // From what the smallest layout of one rank needs to what fits easily.
    d.memory = (int64_t)(1.5e6 + (double)(rng_u64(key, i + 2) % 1000) * 8e3);
    return d;
}

static run_config draw_config(arena *a, const rng_key *key, uint64_t i) {
    const char *sets[] = {"model.preset=tiny", "model.vocab_size=128", "data.pack=stream",
            "model.num_key_value_heads=4",
            arena_printf(a, "model.num_hidden_layers=%d", 2 + (int)(rng_u64(key, i + 3) % 3)),
            arena_printf(a, "data.sequence_length=%d", 16 << rng_u64(key, i + 4) % 3),
            arena_printf(a, "training.global_batch_size=%d", 4 << rng_u64(key, i + 5) % 2)};
    run_config cfg;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
    return cfg;
}

static int by_seconds(const void *x, const void *y) {
    const layout_candidate *a = x, *b = y;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

// Plans all variants, of each mesh the fastest that fits.
static int plan_all(const layout_search *s, layout_candidate *best) {
    layout_candidates all;
    device_profile roomy = s->device;
    int n = 0;
    roomy.memory = INT64_MAX;
    layout_candidates_find(s->cfg, s->ranks, &roomy, NULL, &all);
    for (int i = 0; i < all.n; i++) {
        layout_candidate c = all.list[i];
        if (layout_search_plan(s, &c) != DRV_OK || c.bytes > (double)s->device.memory) continue;
        if (n > 0 && layout_same_mesh(&best[n - 1], &c)) {
            if (c.seconds < best[n - 1].seconds) best[n - 1] = c;
        } else {
            best[n++] = c;
        }
    }
    layout_candidates_free(&all);
    qsort(best, (size_t)n, sizeof *best, by_seconds);
    return n;
}

// Compares the search for so many layouts with the best of all.
static void check_search(int number, const layout_search *asked, int64_t top,
        const layout_candidate *best, int n) {
    static layout_search search;
    layout_search *s = &search;
    const int expected = n < top ? n : (int)top;
    search = *asked;
    s->top = top;
    OK(layout_search_run(s));
    if (s->n != expected) fail_msg("case %d: %d found of %d", number, s->n, n);
    for (int i = 0; i < s->n; i++)
        if (s->list[i].seconds > best[i].seconds * (1 + 1e-9))
            fail_msg("case %d, row %d: %g s, expected %g: tensor %d pipeline %d context %d", number,
                    i, s->list[i].seconds, best[i].seconds, (int)best[i].tensor,
                    (int)best[i].pipeline, (int)best[i].context);
    layout_search_free(s);
}

static void check_case(int number) {
    arena *a = arena_new("case");
    const rng_key key = {7, RNG_TEST, (uint64_t)number};
    const run_config cfg = draw_config(a, &key, 0);
    const layout_search s = {.cfg = &cfg,
            .ranks = 2 + 2 * (number % 2),
            .device = draw_device(&key, 0)};
    static layout_candidate best[ALL];
    par_set_threads(1 + number % 3); // which search together; what is planned here is planned alone
    const int n = plan_all(&s, best);
    check_search(number, &s, TOP, best, n);
    check_search(number, &s, ALL, best, n);
    arena_free(a);
}

TEST(every_mesh) {
    for (int i = 0; i < CASES; i++)
        check_case(i);
    par_set_threads(1);
}

// The time of a layout without its plan, against that of the plan.
static void check_time(arena *a, const layout_search *s, const layout_candidate *planned) {
    run_config cfg = *s->cfg;
    step_cost cost;
    layout_times *known = layout_times_new();
    OK(layout_candidate_apply(planned, s->ranks, &cfg));
    OK(layout_time_make(known, &cfg, &s->device, &cost));
    if (fabs(cost.seconds / planned->seconds - 1) > 1e-9)
        fail_msg("%s: timed %.12g s, planned %.12g", layout_keys(a, planned), cost.seconds,
                planned->seconds);
    layout_times_free(known);
}

// The rank that holds most is among those that a search plans; of ZB-H1 one that holds about as much.
TEST(most_memory_is_planned) {
    static const char *const schedules[] = {"parallel.schedule=1f1b", "parallel.schedule=gpipe",
            "parallel.schedule=zb-h1", "parallel.schedule=interleaved"};
    for (int i = 0; i < 4; i++)
        for (int layers = 10; layers <= 13; layers++) {
            const char *sets[] = {"model.preset=tiny", "data.pack=stream", "parallel.pipeline=5",
                    "training.global_batch_size=10", "training.micro_batch_size=1", schedules[i],
                    i == 3 ? "parallel.virtual_stages=2" : "parallel.virtual_stages=1",
                    arena_printf(a, "model.num_hidden_layers=%d", layers)};
            run_config cfg;
            stage_plans all, ends;
            OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
            OK(config_set_ranks(&cfg, 5));
            OK(stage_plans_make(a, false, &cfg, &all));
            OK(stage_plans_make(a, true, &cfg, &ends));
            const double same = i == 2 ? 0.99 : 1;
            if ((double)ends.bytes[ends.worst] < same * (double)all.bytes[all.worst])
                fail_msg("%s, %d layers: rank %d holds %lld bytes, of the planned ranks %d most: %lld",
                        schedules[i], layers, all.worst, (long long)all.bytes[all.worst],
                        ends.worst, (long long)ends.bytes[ends.worst]);
        }
}

// Estimates against plans, of every schedule, recomputation and degree of ZeRO: models of which
// activations are a large part.
TEST(estimates_are_plans) {
    static const char *const precisions[] = {"training.precision=bf16", "training.precision=fp32"};
    int n_tried = 0, n_close = 0, n_pipelines = 0;
    for (int i = 0; i < 2; i++) {
        const char *sets[] = {"model.preset=tiny", "model.vocab_size=2048", "data.pack=stream",
                "model.num_key_value_heads=4", "model.num_hidden_layers=9", "model.hidden_size=128",
                "data.sequence_length=256", "training.global_batch_size=16", precisions[i]};
        run_config cfg;
        OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
        layout_search s = {.cfg = &cfg, .ranks = 8, .device = draw_device(&(rng_key){0}, 0)};
        layout_candidates all;
        s.device.memory = INT64_MAX;
        layout_candidates_find(&cfg, s.ranks, &s.device, NULL, &all);
        for (int k = 0; k < all.n; k += 37) {
            layout_candidate c = all.list[k];
            if (layout_search_plan(&s, &c) != DRV_OK) continue;
            check_time(a, &s, &c);
            const double off = all.list[k].bytes / c.bytes - 1;
            n_pipelines += c.pipeline > 1;
            n_tried++;
            n_close += fabs(off) < CLOSE;
            if (fabs(off) > FAR)
                fail_msg("%s: estimated %.0f bytes, planned %.0f, %+.1f %%", layout_keys(a, &c),
                        all.list[k].bytes, c.bytes, 100 * off);
        }
        layout_candidates_free(&all);
    }
    if (n_pipelines < n_tried / 2 || n_close < n_tried * 9 / 10)
        fail_msg("%d of %d estimates are close, %d of them of pipelines", n_close, n_tried,
                n_pipelines);
}

// Where the ranks do not divide the micro-batches, only some groups of an interleaved schedule end,
// or none: what is listed can be planned, and its estimate is of the plan's group.
TEST(listed_schedules_end) {
    static const struct {
        int64_t ranks;
        const char *batch;
    } cases[] = {{3, "training.global_batch_size=10"}, {4, "training.global_batch_size=11"}};
    for (int i = 0; i < 2; i++) {
        const char *sets[] = {"model.preset=tiny", "model.vocab_size=2048", "data.pack=stream",
                "model.num_hidden_layers=9", "model.hidden_size=128", "data.sequence_length=256",
                cases[i].batch};
        run_config cfg;
        OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
        layout_search s = {.cfg = &cfg,
                .ranks = cases[i].ranks,
                .device = draw_device(&(rng_key){0}, 0)};
        const mesh pinned = {.size = {[AXIS_PIPELINE] = (int)cases[i].ranks}};
        layout_candidates all;
        s.device.memory = INT64_MAX;
        layout_candidates_find(&cfg, s.ranks, &s.device, &pinned, &all);
        assert_true(all.n > 0);
        for (int k = 0; k < all.n; k++) {
            layout_candidate c = all.list[k];
            OK(layout_search_plan(&s, &c));
            const double off = all.list[k].bytes / c.bytes - 1;
            if (fabs(off) > CLOSE)
                fail_msg("%s: estimated %.0f bytes, planned %.0f, %+.1f %%", layout_keys(a, &c),
                        all.list[k].bytes, c.bytes, 100 * off);
        }
        layout_candidates_free(&all);
    }
}

// A device makes the gradients of one micro-batch in memory that activations have left, so a layout
// of one micro-batch may fit where the sum of both does not: its estimate is its plan.
TEST(one_micro_batch_of_a_device) {
    const char *sets[] = {"model.preset=tiny", "model.vocab_size=2048", "data.pack=stream",
            "data.sequence_length=256", "training.global_batch_size=4", "backend=pjrt",
            "pjrt.plugin=cpu"};
    run_config cfg;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
    layout_search s = {.cfg = &cfg, .ranks = 1, .device = draw_device(&(rng_key){0}, 0)};
    layout_candidates all;
    int n = 0;
    s.device.memory = INT64_MAX;
    layout_candidates_find(&cfg, s.ranks, &s.device, NULL, &all);
    for (int i = 0; i < all.n; i++) {
        layout_candidate c = all.list[i];
        if (c.micro_batch != cfg.global_batch_size) continue;
        OK(layout_search_plan(&s, &c));
        if (c.bytes != all.list[i].bytes)
            fail_msg("%s: estimated %.0f bytes, planned %.0f", layout_keys(a, &c),
                    all.list[i].bytes, c.bytes);
        n++;
    }
    assert_int_equal(n, 3); // ways to recompute
    layout_candidates_free(&all);
}
