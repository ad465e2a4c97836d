// Tensor ranks give the bits of one rank: any degree, with the tokens shared or not, beside data
// ranks, ZeRO and pipelines, whatever the type, the ties and the vocabulary (docs/adr/0012).
#include "layout_bits.h"

// Each degree with and without shared tokens; then every other axis beside it.
static const bits_case meshes[] = {{2, 1, 1, 1, {WHOLE, ZERO1}}, {2, 1, 1, 1, {SHARED, ZERO1}},
        {4, 1, 1, 1, {WHOLE, ZERO1}}, {4, 1, 1, 1, {SHARED, ZERO1}}, {2, 1, 2, 1, {SHARED, ZERO0}},
        {4, 1, 2, 1, {WHOLE, ZERO1}}, {2, 1, 1, 2, {SHARED, ZERO1}}, {2, 1, 2, 2, {SHARED, ZERO1}},
        {2, 1, 2, 2, {WHOLE, ZERO0}}, {4, 1, 1, 2, {SHARED, ZERO1}}};
enum { N_MESHES = sizeof meshes / sizeof *meshes };

TEST(every_mesh_fp32) {
    const char *sets[] = {"training.precision=fp32", "model.tie_word_embeddings=true"};
    same_bits_on(meshes, N_MESHES, sets, 2);
}

TEST(every_mesh_bf16) {
    const char *sets[] = {"training.precision=bf16", "model.tie_word_embeddings=false"};
    same_bits_on(meshes, N_MESHES, sets, 2);
}

// 509 rows are three parts of 128 and one of 125; heads of 10 numbers, reduction blocks of odd
// length.
TEST(sizes_that_fill_nothing) {
    static const char *const models[][6] = {{"training.precision=fp32", "model.vocab_size=509",
                                                    "model.tie_word_embeddings=true",
                                                    "model.head_dim=10",
                                                    "model.intermediate_size=148",
                                                    "data.sequence_length=36"},
            {"training.precision=bf16", "model.vocab_size=509", "model.tie_word_embeddings=false",
                    "model.head_dim=10", "model.intermediate_size=148", "data.sequence_length=36"}};
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED, ZERO1}}, {4, 1, 1, 1, {SHARED, ZERO1}},
            {4, 1, 2, 1, {WHOLE, ZERO0}}, {2, 1, 2, 2, {SHARED, ZERO1}}};
    for (int i = 0; i < 2; i++)
        same_bits_on(some, 4, models[i], 6);
}

// Stochastic rounding draws for elements of the model, not of a rank.
TEST(state_and_gradients_in_bf16) {
    const char *sets[] = {"optimizer.state_dtype=bf16", "training.grad_dtype=bf16",
            "training.precision=bf16", "optimizer.master_dtype=bf16"};
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED, ZERO1}}, {2, 1, 2, 1, {WHOLE, ZERO1}},
            {1, 1, 2, 1, {ZERO0}}, {1, 1, 1, 2, {"parallel.schedule=zb-h1"}}};
    for (int n_sets = 3; n_sets <= 4; n_sets++)
        same_bits_on(some, sizeof some / sizeof *some, sets, n_sets);
}

// The whole chain of degrees; products longer than a block of the inner dimension.
TEST(eight_ranks) {
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED, ZERO1}}, {8, 1, 1, 1, {SHARED, ZERO1}},
            {8, 1, 1, 1, {WHOLE, ZERO1}}};
    static const char *const models[][6] = {{"training.precision=bf16",
                                                    "model.num_key_value_heads=8",
                                                    "model.num_hidden_layers=2",
                                                    "model.intermediate_size=14400",
                                                    "training.recompute=selective",
                                                    "data.sequence_length=24"},
            {"training.precision=fp32", "model.num_key_value_heads=8", "model.num_hidden_layers=2",
                    "model.intermediate_size=8008", "training.recompute=full",
                    "data.sequence_length=24"}};
    for (int i = 0; i < 2; i++)
        same_bits_on(some, 3, models[i], 6);
}

// The number of reduction blocks decides, not the ranks: with others the bits are others.
TEST(blocks_decide) {
    const char *sets[] = {"training.precision=fp32", "parallel.tensor_blocks=2"};
    const bits_case two = {2, 1, 1, 1, {SHARED, ZERO1}};
    layout_run one = run_case(&alone, sets, 2), several = run_case(&two, sets, 2);
    expect_same_bits(&several, &one);
    sets[1] = "parallel.tensor_blocks=1";
    layout_run chains = run_case(&alone, sets, 2);
    assert_memory_not_equal(chains.weights, one.weights, sizeof(float) * (size_t)one.n_weights);
    free(one.weights), free(several.weights), free(chains.weights);
}

TEST(blocks_that_do_not_divide_are_refused) {
    static const struct {
        const char *set, *text;
    } cases[] = {{"parallel.tensor_blocks=3", "3, expected parallel.tensor 2 x 1, 2, 4"},
            {"parallel.tensor_blocks=6", "6, expected parallel.tensor 2 x 1, 2, 4"},
            {"parallel.tensor_blocks=8", "8, expected a divisor of model.intermediate_size 172"},
            {"model.vocab_size=5", "so few that each has rows of the vocabulary of 5"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_config cfg;
        programs p;
        const char *sets[] = {"model.preset=tiny", "training.micro_batch_size=1",
                "data.sequence_length=48", "parallel.tensor=2", cases[i].set,
                i == 3 ? "parallel.tensor_blocks=4" : "training.seed=1"};
        OK(config_load(a, NULL, sets, 6, &cfg));
        FAILS(programs_build(a, &cfg, &p), DRV_E_USAGE, cases[i].text);
    }
}
