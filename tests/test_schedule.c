// Learning rates by step, against numbers worked out by hand and the rules of other trainers.
#include "harness.h"

#include <math.h>

#include "train/schedule.h"

TEST(rates) {
    const double half = 0.5 * (1 + cos(3.14159265358979323846 / 2));
    const struct {
        schedule_type type;
        int64_t steps, warmup, decay;
        double min_lr;
        int64_t step;
        double expected; // with lr 1
    } cases[] = {
            // Warm-up: no step of rate 0, the last one at the peak.
            {SCHEDULE_COSINE, 10, 4, 0, 0, 1, 0.25},
            {SCHEDULE_COSINE, 10, 4, 0, 0, 4, 1},
            // torchtitan, 0-based step i with W = 4, N = 10: linear 1 - (i - W) / (N - W).
            {SCHEDULE_LINEAR, 10, 4, 0, 0, 5, 1},
            {SCHEDULE_LINEAR, 10, 4, 0, 0, 8, 0.5},
            {SCHEDULE_LINEAR, 10, 4, 0, 0, 10, 1.0 / 6},
            {SCHEDULE_LINEAR, 10, 4, 0, 0.1, 10, 0.1 + 0.9 / 6},
            {SCHEDULE_COSINE, 10, 4, 0, 0, 8, half},
            {SCHEDULE_COSINE, 1, 0, 0, 0, 1, 1},
            {SCHEDULE_LINEAR, 2, 0, 0, 0, 2, 0.5},
            {SCHEDULE_WSD, 100, 10, 0, 0, 90, 1},
            {SCHEDULE_WSD, 100, 10, 0, 0, 91, 1},
            {SCHEDULE_WSD, 100, 10, 0, 0, 100, 0.1},
            {SCHEDULE_WSD, 100, 10, 4, 0, 100, 0.25},
            {SCHEDULE_CONSTANT, 10, 0, 0, 0, 10, 1},
            // A decay of its own length: min_lr after it, or a run that ends before.
            {SCHEDULE_COSINE, 100, 4, 6, 0.1, 8, 0.1 + 0.9 * half},
            {SCHEDULE_LINEAR, 100, 4, 6, 0.1, 11, 0.1},
            {SCHEDULE_LINEAR, 100, 4, 6, 0.1, 100, 0.1},
            {SCHEDULE_LINEAR, 6, 4, 6, 0, 6, 5.0 / 6},
            // Beyond the end (steps were lowered): the lowest rate.
            {SCHEDULE_COSINE, 10, 4, 0, 0.1, 11, 0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_config cfg = {.lr = 1,
                .schedule = cases[i].type,
                .steps = cases[i].steps,
                .warmup_steps = cases[i].warmup,
                .decay_steps = cases[i].decay,
                .min_lr = cases[i].min_lr};
        const double lr = schedule_lr(&cfg, cases[i].step);
        if (fabs(lr - cases[i].expected) > 1e-15)
            fail_msg("case %zu, step %lld: %.17g, expected %.17g", i, (long long)cases[i].step, lr,
                    cases[i].expected);
    }
}

// The formulas of their sources: nemo/core/optim/lr_scheduler.py (CosineAnnealing), and
// get_linear_schedule_with_warmup of transformers, which count steps s from 0.
TEST(warmups_of_other_trainers) {
    enum { WARMUP = 20, STEPS = 100 };
    const double pi = 3.14159265358979323846;
    run_config nemo = {.lr = 3,
            .min_lr = 0.5,
            .steps = STEPS,
            .warmup_steps = WARMUP,
            .schedule = SCHEDULE_COSINE,
            .warmup_like = WARMUP_NEMO};
    run_config linear = {.lr = 3,
            .steps = STEPS,
            .warmup_steps = WARMUP,
            .schedule = SCHEDULE_LINEAR,
            .warmup_like = WARMUP_TRANSFORMERS};
    for (int s = 0; s < STEPS; s++) {
        const double x = pi * (s - WARMUP) / (STEPS - WARMUP);
        const double cosine =
                s <= WARMUP ? 3.0 * (s + 1) / (WARMUP + 1) : 0.5 + 2.5 * 0.5 * (1 + cos(x));
        const double line = s < WARMUP ? 3.0 * s / WARMUP : 3.0 * (STEPS - s) / (STEPS - WARMUP);
        assert_true(fabs(schedule_lr(&nemo, s + 1) - cosine) < 1e-14);
        assert_true(fabs(schedule_lr(&linear, s + 1) - line) < 1e-14);
    }
}

TEST(no_step_is_wasted) {
    for (int type = SCHEDULE_COSINE; type <= (int)SCHEDULE_CONSTANT; type++)
        for (int64_t steps = 1; steps < 40; steps++) {
            run_config cfg = {.lr = 1, .schedule = (schedule_type)type, .steps = steps};
            for (int64_t step = 1; step <= steps; step++)
                if (!(schedule_lr(&cfg, step) > 0))
                    fail_msg("type %d: step %lld of %lld has rate 0", type, (long long)step,
                            (long long)steps);
        }
}

static run_config loaded(arena *a, const char *const *sets, int n) {
    const char *all[8] = {"model.preset=tiny"};
    run_config cfg;
    for (int i = 0; i < n; i++)
        all[i + 1] = sets[i];
    OK(config_load(a, NULL, all, n + 1, &cfg));
    return cfg;
}

// What auto and a ratio come to. The ratio is rounded up as transformers does it
// (TrainingArguments.get_warmup_steps: math.ceil(steps * ratio)); 0.07 x 100 is 7.000000000000001
// in floating point and still 7.
TEST(warmups) {
    static const struct {
        const char *steps, *warmup;
        int64_t expected;
    } cases[] = {{"12", NULL, 1}, {"9", NULL, 0}, {"250", NULL, 25}, {"1000", NULL, 100},
            {"1000000", NULL, 100}, {"auto", NULL, 100}, {"12", "schedule.warmup_steps=auto", 1},
            {"12", "schedule.warmup_steps=0", 0}, {"12", "schedule.warmup_steps=100", 100},
            {"100", "schedule.warmup_ratio=0.07", 7}, {"101", "schedule.warmup_ratio=0.07", 8},
            {"1000", "schedule.warmup_ratio=0", 0}, {"10", "schedule.warmup_ratio=1", 10},
            {"3", "schedule.warmup_ratio=0.1", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sets[] = {arena_printf(a, "training.steps=%s", cases[i].steps),
                cases[i].warmup};
        const run_config cfg = loaded(a, sets, cases[i].warmup ? 2 : 1);
        if (config_warmup_steps(&cfg) != cases[i].expected)
            fail_msg("case %zu: %lld", i, (long long)config_warmup_steps(&cfg));
    }
    // A short run gets to its peak: the highest rate is that of the step after the warm-up.
    const run_config cfg = loaded(a, (const char *[]){"training.steps=12", "optimizer.lr=0.5"}, 2);
    double highest = 0;
    for (int64_t step = 1; step <= 12; step++)
        highest = fmax(highest, schedule_lr(&cfg, step));
    assert_true(highest == 0.5);
}

TEST(epochs_are_steps) {
    static const struct {
        const char *epochs;
        int64_t rows, expected;
    } cases[] = {{"3", 100, 38}, {"1", 8, 1}, {"1", 7, 1}, {"1", 9, 2}, {"0.5", 80, 5},
            {"0.07", 800, 7}, {"2", 1000000000000, 250000000000}, {"1e-6", 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sets[] = {arena_printf(a, "training.epochs=%s", cases[i].epochs),
                "training.global_batch_size=8"};
        run_config cfg = loaded(a, sets, 2);
        assert_int_equal(cfg.steps, 0);
        assert_string_equal(config_length_key(&cfg), "training.epochs");
        config_count_steps(&cfg, cases[i].rows, 0, 0);
        if (cfg.steps != cases[i].expected) fail_msg("case %zu: %lld", i, (long long)cfg.steps);
    }
    // What is left after some steps, of another batch or another number of epochs, in rows.
    static const struct {
        const char *epochs;
        int64_t rows, step, taken, expected;
    } resumed[] = {{"2", 136, 34, 136, 51}, {"2", 136, 17, 136, 34}, {"1", 136, 34, 136, 34},
            {"3", 136, 34, 136, 68}, {"1", 137, 34, 136, 35}, {"1", 136, 68, 272, 68},
            {"0.07", 800, 1, 8, 7}, {"0.07", 800, 100, 48, 101}, {"2", 8, 1, 9, 2}};
    for (size_t i = 0; i < sizeof resumed / sizeof *resumed; i++) {
        const char *sets[] = {arena_printf(a, "training.epochs=%s", resumed[i].epochs),
                "training.global_batch_size=8"};
        run_config cfg = loaded(a, sets, 2);
        config_count_steps(&cfg, resumed[i].rows, resumed[i].step, resumed[i].taken);
        if (cfg.steps != resumed[i].expected) fail_msg("case %zu: %lld", i, (long long)cfg.steps);
    }
    run_config cfg = loaded(a, (const char *[]){"training.steps=5"}, 1);
    config_count_steps(&cfg, 1000, 0, 0);
    assert_int_equal(cfg.steps, 5);
    assert_string_equal(config_length_key(&cfg), "training.steps");
}
