// Low-rank branches on ranks that share a model: pipelines give the bits of one rank, context ranks
// its numbers within rounding, dropout included. (Tensor ranks: test_lora_bits.)
#include "layout_run.h"

#include <math.h>

static const char *const all_branches = "lora.target_modules=all-linear";
static const char *const dropped = "lora.dropout=0.3";

// --- pipelines
static const char *const schedules[] = {"parallel.schedule=gpipe", "parallel.schedule=1f1b",
        "parallel.schedule=interleaved", "parallel.schedule=zb-h1"};
enum { N_SCHEDULES = 4, INTERLEAVED = 2 };

typedef struct pipeline_case {
    const char *targets, *precision, *recompute, *tied;
} pipeline_case;

static const pipeline_case pipelines[] = {
        {"lora.target_modules=[q_proj, v_proj]", "training.precision=bf16",
                "training.recompute=none", "model.tie_word_embeddings=true"},
        {"lora.target_modules=all-linear", "training.precision=fp32", "training.recompute=full",
                "model.tie_word_embeddings=false"},
        {"lora.target_modules=all-linear", "training.precision=bf16",
                "training.recompute=selective", "model.tie_word_embeddings=true"},
        // Layers 2 and 3 of 4: the first stages train nothing; layer 1 alone: the last ones nothing.
        {"lora.target_modules=.*layers\\.(2|3)\\..*proj", "training.precision=bf16",
                "training.recompute=none", "model.tie_word_embeddings=true"},
        {"lora.target_modules=.*layers\\.1\\..*(k|gate|down)_proj", "training.precision=fp32",
                "training.recompute=full", "model.tie_word_embeddings=false"},
};

TEST(stages_have_the_bits_of_one_rank) {
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        const pipeline_case *c = &pipelines[i];
        const char *sets[] = {"lora.rank=4", dropped, c->targets, c->precision, c->recompute,
                c->tied, NULL, NULL, NULL};
        layout_run one = train_layout(1, sets, 6);
        for (int ranks = 2; ranks <= 4; ranks *= 2)
            for (int k = 0; k < N_SCHEDULES; k++) {
                if (k == INTERLEAVED && ranks > 2) continue; // four layers
                sets[6] = schedules[k];
                sets[7] = ranks == 2 ? "parallel.pipeline=2" : "parallel.pipeline=4";
                sets[8] = k == INTERLEAVED ? "parallel.virtual_stages=2"
                                           : "parallel.virtual_stages=1";
                print_message("%d stages, %s, %s, %s\n", ranks, schedules[k], c->targets,
                        c->precision);
                layout_run several = train_layout(ranks, sets, 9);
                expect_same_bits(&several, &one);
                free(several.weights);
            }
        free(one.weights);
    }
}

// --- context ranks
// Of the moments, which are sums of gradients; a weight's own steps have lost their size (Adam).
static double moments_differ(const layout_run *got, const layout_run *want) {
    double difference = 0, size = 0;
    for (int64_t i = want->n_weights / 2; i < want->n_weights; i++) {
        const double d = (double)got->weights[i] - (double)want->weights[i];
        difference += d * d;
        size += (double)want->weights[i] * (double)want->weights[i];
    }
    return sqrt(difference / size);
}

static void expect_close(const layout_run *got, const layout_run *want, double bound) {
    expect_close_numbers(got, want, bound);
    const double differ = moments_differ(got, want);
    if (!(differ < 100 * bound))
        fail_msg("%d ranks, %s: moments differ by %g of their size", got->ranks,
                got->sets[got->n_sets - 1], differ);
}

typedef struct mesh_case {
    int tensor, others; // ranks along the tensor axis, and in all other directions together
    const char *sets[3];
} mesh_case;

static const mesh_case meshes[] = {{1, 2, {"parallel.context=2"}},
        {2, 2, {"parallel.context=2", "parallel.sequence=true"}},
        {1, 4, {"parallel.context=2", "parallel.pipeline=2", "training.recompute=full"}}};

static const char *const degrees[] = {[1] = "parallel.tensor=1", [2] = "parallel.tensor=2"};

static void compare_with_one(const char *targets, const char *type, double bound) {
    const char *sets[] = {"lora.rank=4", dropped, targets, type, NULL, NULL, NULL, NULL};
    layout_run one = train_layout(1, sets, 4);
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        const mesh_case *c = &meshes[i];
        int n = 4;
        sets[n++] = degrees[c->tensor];
        for (int k = 0; k < 3 && c->sets[k]; k++)
            sets[n++] = c->sets[k];
        layout_run several = train_layout(c->tensor * c->others, sets, n);
        expect_close(&several, &one, bound);
        free(several.weights);
    }
    free(one.weights);
}

TEST(context_ranks_are_close_to_one) {
    compare_with_one(all_branches, "training.precision=fp32", 2e-6);
    compare_with_one("lora.target_modules=[q_proj, v_proj]", "training.precision=fp32", 2e-6);
    compare_with_one("lora.target_modules=[k_proj, down_proj]", "training.precision=bf16", 1e-3);
}

// The mask is that of one rank: with another one the loss would differ by far more than rounding.
TEST(dropout_matters) {
    const char *sets[] = {"lora.rank=4", dropped, all_branches, "training.precision=fp32"};
    layout_run with = train_layout(1, sets, 4);
    sets[1] = "lora.dropout=0";
    layout_run without = train_layout(1, sets, 4);
    if (!(fabs(with.loss[0] / without.loss[0] - 1) > 1e-4))
        fail_msg("losses %.9g and %.9g", with.loss[0], without.loss[0]);
    free(with.weights);
    free(without.weights);
}
