// Rows that several ranks share: the steps of one rank, on layouts of context, data, tensor and
// pipeline ranks.
#include "layout_run.h"

#include <math.h>

#include "programs/fit.h"

// Adam's first steps move each weight by up to the learning rate of 1e-3, whatever the size of its
// gradient: where that is a rounding error, its sign and so the step may differ.
static void expect_close(const layout_run *got, const layout_run *want, double bound) {
    double worst = 0;
    for (int step = 0; step < STEPS; step++) {
        const double loss = fabs(got->loss[step] / want->loss[step] - 1),
                     norm = fabs(got->grad_norm[step] / want->grad_norm[step] - 1),
                     size = fabs(got->param_norm[step] / want->param_norm[step] - 1);
        if (!(loss < bound && norm < 20 * bound && size < bound))
            fail_msg("%d ranks, %s, step %d: loss %.9g, norms %.9g %.9g; one: %.9g, %.9g %.9g",
                    got->ranks, got->sets[6], step, got->loss[step], got->grad_norm[step],
                    got->param_norm[step], want->loss[step], want->grad_norm[step],
                    want->param_norm[step]);
    }
    for (int64_t i = 0; i < want->n_weights; i++)
        worst = fmax(worst, fabs((double)got->weights[i] - (double)want->weights[i]));
    if (!(worst < STEPS * 2.1e-3)) fail_msg("%s: a weight differs by %g", got->sets[6], worst);
}

typedef struct layout {
    int context, data, tensor, pipeline;
} layout;

static layout_run run_on(const layout *l, const char *const *more, int n_more) {
    arena *a = arena_new("sets");
    const char *sets[8] = {arena_printf(a, "parallel.context=%d", l->context),
            arena_printf(a, "parallel.tensor=%d", l->tensor),
            arena_printf(a, "parallel.pipeline=%d", l->pipeline)};
    for (int i = 0; i < n_more; i++)
        sets[3 + i] = more[i];
    layout_run r = train_layout(l->context * l->data * l->tensor * l->pipeline, sets, 3 + n_more);
    r.sets[6] = NULL;
    arena_free(a);
    static char text[4][64];
    static int next;
    r.sets[6] = text[next = (next + 1) % 4];
    snprintf(text[next], sizeof text[next], "context %d, data %d, tensor %d, pipeline %d",
            l->context, l->data, l->tensor, l->pipeline);
    return r;
}

TEST(rows_may_be_shared) {
    static const char *const more[][4] = {{"training.precision=fp32",
                                                  "model.tie_word_embeddings=true",
                                                  "training.recompute=full",
                                                  "training.micro_batch_size=2"},
            {"training.precision=fp32", "model.tie_word_embeddings=false",
                    "training.recompute=selective", "parallel.zero=0"}};
    for (int k = 0; k < 2; k++) {
        layout_run one = run_on(&(layout){1, 1, 1, 1}, more[k], 4);
        for (int i = 0; i < 16; i++) {
            const layout l = {2 << (i & 1), 1 + (i >> 1 & 1), 1 + (i >> 2 & 1), 1 + (i >> 3)};
            if (l.context * l.data * l.tensor * l.pipeline > 8) continue;
            layout_run several = run_on(&l, more[k], 4);
            expect_close(&several, &one, 2e-5);
            free(several.weights);
        }
        free(one.weights);
    }
}

TEST(rows_of_bf16) {
    const char *more[] = {"training.precision=bf16", "parallel.accumulation_groups=2"};
    layout_run one = run_on(&(layout){1, 1, 1, 1}, more, 2);
    for (int context = 2; context <= 4; context *= 2) {
        layout_run several = run_on(&(layout){context, 2, 1, 1}, more, 2);
        expect_close(&several, &one, 2e-3);
        free(several.weights);
    }
    free(one.weights);
}

// Elements are dropped by their place in the whole row.
TEST(branches_with_dropout) {
    const char *more[] = {"training.precision=fp32", "lora.rank=4", "lora.dropout=0.3",
            "lora.target_modules=all-linear", "training.micro_batch_size=2"};
    layout_run one = run_on(&(layout){1, 1, 1, 1}, more, 5);
    for (int i = 0; i < 4; i++) {
        const layout l = {2 << (i & 1), 1, 1 + (i >> 1), 1};
        layout_run several = run_on(&l, more, 5);
        expect_close(&several, &one, 2e-5);
        free(several.weights);
    }
    free(one.weights);
}

// --- memory of a long row
static int64_t activations_of(int context, memory_plan *out) {
    arena *a = arena_new("plan");
    run_config cfg;
    const char *sets[] = {"model.preset=llama-3.1-8b", "data.sequence_length=131072",
            "training.global_batch_size=1", "training.recompute=full",
            arena_printf(a, "parallel.context=%d", context)};
    OK(config_load(a, NULL, sets, 5, &cfg));
    OK(config_set_ranks(&cfg, context));
    OK(fit_plan(&cfg, out));
    arena_free(a);
    return out->activations;
}

TEST(memory_of_a_long_row_falls_with_the_ranks) {
    memory_plan planned, before;
    const int64_t one = activations_of(1, &before);
    for (int context = 2; context <= 16; context *= 2) {
        const double share = (double)activations_of(context, &planned) / (double)one;
        if (share > 1.15 / context)
            fail_msg("%d ranks: %g of the activations of one", context, share);
        assert_true(planned.total < before.total && planned.optimizer < before.optimizer);
        before = planned;
    }
}

// --- what cannot be shared
TEST(rows_that_do_not_divide_are_refused) {
    static const struct {
        const char *sets[2], *text;
    } cases[] =
            {{{"parallel.context=2", "data.sequence_length=42"},
                     "\"data.sequence_length\" is 42, expected a multiple of 4: two chunks for each of "
                     "parallel.context 2 ranks"},
                    {{"parallel.context=3", "data.sequence_length=64"}, "expected a multiple of 6"},
                    {{"parallel.context=0", "data.sequence_length=64"},
                            "\"parallel.context\" is \"0\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(cases[i].sets[0], cases[i].sets[1], cases[i].text);
    run_config cfg;
    const char *sets[] = {"model.preset=tiny", "parallel.context=4", "data.sequence_length=64"};
    OK(config_load(a, NULL, sets, 3, &cfg));
    FAILS(config_set_ranks(&cfg, 6), DRV_E_USAGE, "context 4");
}
