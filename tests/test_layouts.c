// The same steps on several ranks as on one: losses, norms, gradients and weights.
#include "layout_run.h"

#include <math.h>

// --- data parallel
TEST(accum_groups_give_the_same_bits_on_any_ranks) {
    static const char *const precisions[] = {"training.precision=fp32", "training.precision=bf16"};
    for (int p = 0; p < 2; p++) {
        const char *sets[] = {"parallel.accumulation_groups=8", precisions[p], NULL};
        layout_run one = train_layout(1, sets, 2);
        for (int ranks = 2; ranks <= 8; ranks *= 2)
            for (int zero = 0; zero < 2; zero++) {
                sets[2] = zero ? "parallel.zero=1" : "parallel.zero=0";
                layout_run several = train_layout(ranks, sets, 3);
                expect_same_bits(&several, &one);
                free(several.weights);
            }
        free(one.weights);
    }
}

// As many accumulation groups as ranks, unless more are asked for; three leave a tree that is not
// full.
TEST(three_ranks_are_three_accum_groups) {
    const char *sets[] = {"training.global_batch_size=12", "parallel.accumulation_groups=3"};
    layout_run one = train_layout(1, sets, 2), three = train_layout(3, sets, 1);
    expect_same_bits(&three, &one);
    free(one.weights);
    free(three.weights);
}

// --- ZeRO: the same bits, a part of the memory, and the bytes on the wire that a plan says
TEST(data_ranks_share_the_optimizer) {
    static const struct {
        int ranks;
        const char *tensor, *precision, *tied;
    } cases[] = {{2, "1", "fp32", "true"}, {3, "1", "bf16", "false"}, {4, "2", "bf16", "true"},
            {4, "1", "fp32", "false"}, {8, "2", "fp32", "true"}, {8, "4", "bf16", "false"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sets[] = {"training.global_batch_size=12", "parallel.zero=0",
                arena_printf(a, "parallel.tensor=%s", cases[i].tensor),
                arena_printf(a, "training.precision=%s", cases[i].precision),
                arena_printf(a, "model.tie_word_embeddings=%s", cases[i].tied)};
        layout_run whole = train_layout(cases[i].ranks, sets, 5);
        sets[1] = "parallel.zero=1";
        layout_run shards = train_layout(cases[i].ranks, sets, 5);
        expect_same_bits(&shards, &whole);
        const int data = cases[i].ranks / (cases[i].tensor[0] - '0');
        const double share = (double)shards.optimizer_bytes / (double)whole.optimizer_bytes;
        if (share > 1.0 / data + 0.1) fail_msg("case %zu: %g of the optimizer's memory", i, share);
        for (int axis = 0; axis < N_AXES; axis++)
            for (int k = 0; k < 2; k++) {
                const layout_run *r = k ? &shards : &whole;
                const double planned = STEPS * cases[i].ranks * r->wire[axis];
                if (axis != AXIS_DATA && axis != AXIS_TENSOR) continue;
                if (fabs((double)r->sent[axis] - planned) > 1e-9 * planned + 0.5)
                    fail_msg("case %zu, zero %d, axis %d: %lld bytes sent, %g planned", i, k, axis,
                            (long long)r->sent[axis], planned);
            }
        free(whole.weights);
        free(shards.weights);
    }
}

// --- tensor and sequence parallel
static double worst_difference(const layout_run *got, const layout_run *want) {
    double worst = 0;
    for (int64_t i = 0; i < want->n_weights; i++)
        worst = fmax(worst, fabs((double)got->weights[i] - (double)want->weights[i]));
    return worst;
}

// Adam's first steps move each weight by about the learning rate, whatever the size of its
// gradient: where that is a rounding error, its sign and so the step may differ.
static void expect_close(const layout_run *got, const layout_run *want, double bound) {
    expect_close_numbers(got, want, bound);
    const double worst = worst_difference(got, want);
    if (!(worst < STEPS * 2.1e-3)) fail_msg("a weight differs by %g", worst);
}

TEST(tensor_ranks_are_close_to_one) {
    static const char *const tied[] = {"model.tie_word_embeddings=true",
            "model.tie_word_embeddings=false"};
    static const struct {
        const char *tensor, *sequence;
        int ranks;
    } layouts[] = {
            {"parallel.tensor=2", "parallel.sequence=false", 2},
            {"parallel.tensor=2", "parallel.sequence=false", 4},
            {"parallel.tensor=2", "parallel.sequence=true", 2},
            {"parallel.tensor=2", "parallel.sequence=true", 4},
            {"parallel.tensor=4", "parallel.sequence=false", 4},
            {"parallel.tensor=4", "parallel.sequence=false", 8},
            {"parallel.tensor=4", "parallel.sequence=true", 4},
            {"parallel.tensor=4", "parallel.sequence=true", 8},
    };
    static const char *const recompute[] = {"training.recompute=none", "training.recompute=full",
            "training.recompute=selective"};
    for (int k = 0; k < 3; k++) {
        const char *sets[] = {"training.precision=fp32", "training.global_batch_size=4",
                tied[k % 2], recompute[k], NULL, NULL};
        layout_run one = train_layout(1, sets, 4);
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
            sets[4] = layouts[i].tensor;
            sets[5] = layouts[i].sequence;
            layout_run several = train_layout(layouts[i].ranks, sets, 6);
            expect_close(&several, &one, 2e-5);
            free(several.weights);
        }
        free(one.weights);
    }
}

// What tensor ranks gather is gathered once more: the same bits for more bytes on the wire.
TEST(gathers_are_repeated) {
    static const char *const precisions[] = {"training.precision=fp32", "training.precision=bf16"};
    for (int p = 0; p < 2; p++) {
        const char *sets[] = {precisions[p], "training.global_batch_size=4", "parallel.tensor=2",
                "parallel.sequence=true", "training.recompute=none"};
        layout_run kept = train_layout(2, sets, 5);
        sets[4] = "training.recompute=gathers";
        layout_run again = train_layout(2, sets, 5);
        expect_same_bits(&again, &kept);
        assert_true(again.wire[AXIS_TENSOR] > 1.1 * kept.wire[AXIS_TENSOR]);
        free(kept.weights);
        free(again.weights);
    }
}

TEST(tensor_ranks_of_bf16) {
    const char *sets[] = {"training.precision=bf16", "training.global_batch_size=4",
            "parallel.tensor=4"};
    layout_run one = train_layout(1, sets, 2), four = train_layout(4, sets, 3);
    expect_close(&four, &one, 2e-3);
    free(one.weights);
    free(four.weights);
}

// Fresh weights are those of one rank, to the bit.
TEST(a_split_model_begins_alike) {
    const char *still[] = {"training.precision=fp32", "optimizer.eps=1.0", "parallel.tensor=4"};
    layout_run one = train_layout(1, still, 2), four = train_layout(4, still, 3);
    assert_true(worst_difference(&four, &one) < 1e-5); // steps of eps 1 hardly move it
    free(one.weights);
    free(four.weights);
}

TEST(heads_that_do_not_divide_are_refused) {
    static const struct {
        const char *set, *text;
    } cases[] = {{"parallel.tensor=3", "3, expected a divisor of model.num_attention_heads 8"},
            {"parallel.tensor=8", "8, expected a divisor of model.intermediate_size 172"},
            {"data.sequence_length=41", "a divisor of the 41 tokens of a micro-batch"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_config cfg;
        programs p;
        const char *sets[] = {"model.preset=tiny", "training.micro_batch_size=1",
                "data.sequence_length=48", "parallel.tensor=2", cases[i].set};
        OK(config_load(a, NULL, sets, 5, &cfg));
        FAILS(programs_build(a, &cfg, &p), DRV_E_USAGE, cases[i].text);
    }
}

TEST(ranks_that_do_not_fit_are_refused) {
    static const struct {
        int ranks;
        const char *set, *text;
    } cases[] = {
            {3, "parallel.data=auto", "a multiple of micro_batch_size 1 x data-parallel ranks 3"},
            {2, "parallel.data=4", "\"parallel.data\" is 4, but 2 ranks were started"},
            {4, "parallel.accumulation_groups=2",
                    "\"parallel.accumulation_groups\" is 2, expected a multiple of the 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_config cfg;
        const char *sets[] = {"model.preset=tiny", cases[i].set};
        OK(config_load(a, NULL, sets, 2, &cfg));
        FAILS(config_set_ranks(&cfg, cases[i].ranks), DRV_E_USAGE, cases[i].text);
    }
}
