// The size of a micro-batch changes no bit (docs/adr/0026): two steps of a small model on ranks
// that are threads, with 1, 2 and 4 rows a micro-batch and in layouts of all kinds, against one
// rank with micro-batches of one row.
#include "layout_bits.h"

#define FP32 "training.precision=fp32"
#define BF16 "training.precision=bf16"

typedef struct rows_case {
    int rows;
    bits_case on;
} rows_case;

// Eight rows a step, in two accumulation groups: a rank of two has four.
static void same_bits_with_any_rows(const rows_case *cases, size_t n_cases, const char *const *sets,
        int n_sets) {
    const char *all[MAX_SETS] = {"training.global_batch_size=8"};
    char size[64];
    memcpy(all + 1, sets, sizeof *sets * (size_t)n_sets);
    all[n_sets + 1] = "training.micro_batch_size=1";
    layout_run one = run_case(&alone, all, n_sets + 2);
    all[n_sets + 1] = size;
    for (size_t i = 0; i < n_cases; i++) {
        snprintf(size, sizeof size, "training.micro_batch_size=%d", cases[i].rows);
        layout_run several = run_case(&cases[i].on, all, n_sets + 2);
        print_message("  %s\n", size);
        expect_same_bits(&several, &one);
        free(several.weights);
    }
    free(one.weights);
}

#define N_OF(list) (sizeof(list) / sizeof *(list))

TEST(on_one_rank) {
    static const rows_case cases[] = {{2, {1, 1, 1, 1, {ZERO1}}}, {4, {1, 1, 1, 1, {ZERO0}}},
            {4, {1, 1, 1, 1, {"training.recompute=full"}}},
            {2, {1, 1, 1, 1, {"training.recompute=selective"}}}};
    static const char *const precisions[] = {FP32, BF16};
    for (size_t i = 0; i < N_OF(precisions); i++) {
        const char *sets[] = {precisions[i], "model.tie_word_embeddings=true"};
        same_bits_with_any_rows(cases, N_OF(cases), sets, 2);
    }
}

// Partial sums longer than a chunk of logits and than a block of a product.
TEST(long_rows) {
    static const rows_case cases[] = {{2, {1, 1, 1, 1, {0}}}, {4, {2, 1, 1, 1, {0}}}};
    static const char *const precisions[] = {FP32, BF16};
    for (size_t i = 0; i < N_OF(precisions); i++) {
        const char *sets[] = {precisions[i], "data.sequence_length=840",
                "model.num_hidden_layers=1", "model.max_position_embeddings=1024"};
        same_bits_with_any_rows(cases, N_OF(cases), sets, 4);
    }
}

// Tensor ranks that share tokens have whole partial sums, parts of one, or of two: odd rows of 40
// tokens in 2 reduction blocks a row are on two ranks.
TEST(in_layouts) {
    static const rows_case cases[] = {{2, {2, 1, 1, 1, {SHARED}}}, {4, {2, 1, 1, 1, {SHARED}}},
            {4, {2, 1, 1, 1, {WHOLE}}}, {2, {1, 2, 1, 1, {ZERO1}}}, {4, {1, 4, 1, 1, {ZERO1}}},
            {4, {2, 2, 1, 1, {SHARED}}}, {2, {1, 1, 2, 1, {ZERO1}}}, {4, {1, 1, 2, 1, {ZERO0}}},
            {2, {1, 1, 1, 2, {ZERO1}}}, {4, {1, 1, 1, 2, {"parallel.schedule=gpipe"}}},
            {2, {1, 1, 2, 2, {"parallel.schedule=zb-h1"}}}, {2, {2, 1, 2, 2, {SHARED}}},
            {4, {1, 2, 2, 1, {"training.recompute=full"}}}};
    static const char *const precisions[] = {FP32, BF16};
    for (size_t i = 0; i < N_OF(precisions); i++) {
        const char *sets[] = {precisions[i], "parallel.context_blocks=4",
                "model.num_hidden_layers=2"};
        same_bits_with_any_rows(cases, N_OF(cases), sets, 3);
    }
}

// Runs of tokens whose number no rank's share is a multiple of; partial sums that are on two of
// four ranks.
TEST(tokens_that_do_not_divide) {
    static const rows_case cases[] = {{2, {2, 1, 1, 1, {SHARED}}}, {4, {4, 1, 1, 1, {SHARED}}},
            {2, {4, 1, 1, 1, {SHARED}}}, {4, {2, 1, 2, 1, {SHARED}}}};
    static const char *const branches[] = {"lora.rank=0", "lora.rank=3"};
    for (size_t i = 0; i < N_OF(branches); i++) {
        const char *sets[] = {FP32, "data.sequence_length=26", "model.num_attention_heads=16",
                "model.num_key_value_heads=8", "model.intermediate_size=176", branches[i]};
        same_bits_with_any_rows(cases, N_OF(cases), sets, 6);
    }
}

TEST(low_rank_branches) {
    static const rows_case cases[] = {{2, {1, 1, 1, 1, {0}}}, {4, {1, 1, 1, 1, {0}}},
            {4, {2, 1, 1, 1, {SHARED}}}, {2, {2, 2, 1, 1, {SHARED}}}, {2, {1, 1, 2, 2, {0}}}};
    static const char *const precisions[] = {FP32, BF16};
    for (size_t i = 0; i < N_OF(precisions); i++) {
        const char *sets[] = {precisions[i], "lora.rank=4", "lora.dropout=0.1",
                "lora.target_modules=all-linear", "parallel.context_blocks=2"};
        same_bits_with_any_rows(cases, N_OF(cases), sets, 5);
    }
}

// Level 2 adds whole micro-batches: the others have its bits with partial sums of as many rows.
TEST(partial_sums_of_two_rows) {
    static const rows_case cases[] = {{4, {1, 1, 1, 1, {0}}},
            {2, {1, 1, 2, 1, {"parallel.zero=2"}}}, {4, {1, 1, 2, 1, {ZERO1}}},
            {2, {1, 1, 1, 1, {"parallel.zero=2"}}}};
    const char *all[] = {"training.global_batch_size=8", BF16, "parallel.partial_sum_rows=2",
            "training.micro_batch_size=2", NULL};
    char size[64];
    layout_run one = run_case(&alone, all, 4);
    for (size_t i = 0; i < N_OF(cases); i++) {
        snprintf(size, sizeof size, "training.micro_batch_size=%d", cases[i].rows);
        all[4] = size;
        layout_run several = run_case(&cases[i].on, all, 5);
        expect_same_bits(&several, &one);
        free(several.weights);
    }
    free(one.weights);
}

// What is sent is what was planned, where ranks tell each other runs.
TEST(as_planned) {
    static const char *const branches[] = {"lora.rank=0", "lora.rank=4"};
    for (size_t i = 0; i < N_OF(branches); i++)
        for (int n_rows = 1; n_rows <= 4; n_rows *= 2) {
            char set[64];
            snprintf(set, sizeof set, "training.micro_batch_size=%d", n_rows);
            const char *sets[] = {set, branches[i], "parallel.tensor=2", "parallel.check_every=0"};
            layout_run got = train_layout(2, sets, 4);
            const double planned = STEPS * 2 * got.wire[AXIS_TENSOR];
            if (fabs((double)got.sent[AXIS_TENSOR] - planned) > 1e-9 * planned + 0.5)
                fail_msg("%s, %s: %lld bytes sent, %g planned", set, branches[i],
                        (long long)got.sent[AXIS_TENSOR], planned);
            free(got.weights);
        }
}

TEST(what_cannot_be_is_refused) {
    static const struct {
        const char *sets[3], *text;
    } cases[] = {{{"parallel.partial_sum_rows=3"},
                         "key \"parallel.partial_sum_rows\" is 3, expected a divisor of "
                         "training.micro_batch_size 4"},
            {{"parallel.partial_sum_rows=2", "parallel.zero=2"},
                    "is 2, but parallel.zero 2 adds whole micro-batches up, expected auto or "
                    "training.micro_batch_size 4"},
            {{"parallel.partial_sum_rows=1", "training.grad_dtype=bf16"},
                    "is 1, but training.grad_dtype bf16 adds whole micro-batches up"},
            {{"parallel.partial_sum_rows=2", "backend=pjrt"},
                    "is 2, but backend pjrt adds whole micro-batches up"}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        run_config cfg;
        const char *sets[] = {"model.preset=tiny", "training.global_batch_size=8",
                "training.micro_batch_size=4", cases[i].sets[0],
                cases[i].sets[1] ? cases[i].sets[1] : "training.steps=9"};
        FAILS(config_load(a, NULL, sets, 5, &cfg), DRV_E_USAGE, cases[i].text);
    }
}

TEST(what_auto_comes_to) {
    static const struct {
        const char *set;
        int64_t rows;
    } cases[] = {{"training.steps=9", 1}, {"parallel.zero=0", 1}, {"parallel.zero=2", 4},
            {"training.grad_dtype=bf16", 4}, {"backend=pjrt", 4},
            {"parallel.partial_sum_rows=2", 2}, {"parallel.partial_sum_rows=4", 4}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        run_config cfg;
        const char *sets[] = {"model.preset=tiny", "training.global_batch_size=8",
                "training.micro_batch_size=4", cases[i].set};
        OK(config_load(a, NULL, sets, 4, &cfg));
        assert_int_equal(config_partial_sum_rows(&cfg), cases[i].rows);
    }
}
