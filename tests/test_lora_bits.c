// Low-rank branches on tensor and context ranks give the bits of one rank: any degree, with the
// tokens shared or not, beside data ranks, ZeRO and pipelines, whatever the targets, the type and
// the dropout (docs/adr/0012, 0015).
#include "layout_bits.h"

#define RANK "lora.rank=4"

static void same_branches_on(const bits_case *cases, size_t n_cases, const char *const *sets,
        int n_sets) {
    const char *all[MAX_SETS];
    for (int i = 0; i < n_sets; i++)
        all[i] = sets[i];
    all[n_sets] = RANK;
    same_bits_on(cases, n_cases, all, n_sets + 1);
}

// Each degree with and without shared tokens; then every other axis beside it. Of zb-h1, gradients
// of weights are a program of their own.
static const bits_case meshes[] = {{2, 1, 1, 1, {WHOLE}}, {2, 1, 1, 1, {SHARED}},
        {4, 1, 1, 1, {WHOLE}}, {4, 1, 1, 1, {SHARED, "training.recompute=full"}},
        {2, 1, 2, 1, {SHARED, ZERO0}}, {4, 1, 2, 1, {WHOLE, "training.recompute=selective"}},
        {2, 1, 1, 2, {SHARED, "parallel.schedule=zb-h1"}},
        {2, 1, 2, 2, {SHARED, "training.recompute=full"}}, {2, 1, 2, 2, {WHOLE, ZERO0}}};
enum { N_MESHES = sizeof meshes / sizeof *meshes };

static const char *const all_linear = "lora.target_modules=all-linear",
                         *const q_and_v = "lora.target_modules=[q_proj, v_proj]",
                         *const tied = "model.tie_word_embeddings=true",
                         *const untied = "model.tie_word_embeddings=false",
                         *const fp32 = "training.precision=fp32",
                         *const bf16 = "training.precision=bf16",
                         *const dropped = "lora.dropout=0.3", *const kept = "lora.dropout=0";

TEST(all_branches_fp32) {
    const char *sets[] = {fp32, all_linear, tied, dropped};
    same_branches_on(meshes, N_MESHES, sets, 4);
}

TEST(all_branches_bf16) {
    const char *sets[] = {bf16, all_linear, untied, dropped};
    same_branches_on(meshes, N_MESHES, sets, 4);
}

TEST(query_and_value_alone) {
    const char *const sets[][5] = {{bf16, q_and_v, tied, kept, "model.qk_norm=true"},
            {fp32, q_and_v, untied, dropped, "model.qkv_bias=true"}};
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED}}, {4, 1, 1, 1, {WHOLE}},
            {4, 1, 1, 1, {SHARED}}, {2, 1, 2, 2, {SHARED}}};
    for (int i = 0; i < 2; i++)
        same_branches_on(some, 4, sets[i], 5);
}

// A branch of one part in the middle of a fused product, and of what is summed alone; first layers
// without any.
TEST(some_branches) {
    const char *const sets[][4] = {{bf16, "lora.target_modules=[k_proj, down_proj]", tied, dropped},
            {bf16, "lora.target_modules=.*layers\\.(2|3)\\..*(o|up)_proj", untied, kept}};
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED}}, {4, 1, 1, 1, {WHOLE}},
            {4, 1, 1, 2, {SHARED}}};
    for (int i = 0; i < 2; i++)
        same_branches_on(some, 3, sets[i], 4);
}

// Heads of 10 numbers, rows that are no multiple of a vector, several rows at a time.
TEST(sizes_that_fill_nothing) {
    const char *const sets[][7] = {{fp32, all_linear, tied, dropped, "data.sequence_length=36",
                                           "model.head_dim=10", "model.intermediate_size=148"},
            {bf16, all_linear, untied, dropped, "data.sequence_length=44", "model.head_dim=10",
                    "model.vocab_size=509"}};
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED}}, {4, 1, 1, 1, {SHARED}},
            {2, 1, 2, 2, {SHARED, ZERO0}}};
    for (int i = 0; i < 2; i++)
        same_branches_on(some, 3, sets[i], 7);
}

// 42 tokens in 4 reduction blocks, 20 (two rows of 10) and 4 in 8: lengths that differ by one, and
// none.
TEST(blocks_of_uneven_length) {
    const char *const sets[][7] = {{bf16, all_linear, dropped, "data.sequence_length=42"},
            {fp32, all_linear, dropped, "data.sequence_length=10", "training.micro_batch_size=2",
                    "model.num_key_value_heads=8", "model.intermediate_size=176"},
            {bf16, all_linear, dropped, "data.sequence_length=4", "training.micro_batch_size=1",
                    "model.num_key_value_heads=8", "model.intermediate_size=176"}};
    static const int n_sets[] = {4, 7, 7};
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED}}, {4, 1, 1, 1, {WHOLE}},
            {2, 1, 2, 1, {SHARED}}, {4, 1, 1, 1, {SHARED}}};
    for (int i = 0; i < 3; i++)
        same_branches_on(some, i == 0 ? 3 : 4, sets[i],
                n_sets[i]); // 4 ranks cannot share 42 tokens
}

TEST(eight_ranks) {
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED}}, {8, 1, 1, 1, {SHARED}},
            {8, 1, 1, 1, {WHOLE}}};
    const char *const sets[][7] = {{bf16, all_linear, dropped, "model.num_key_value_heads=8",
                                           "model.num_hidden_layers=2",
                                           "model.intermediate_size=14400",
                                           "data.sequence_length=24"},
            {fp32, q_and_v, dropped, "model.num_key_value_heads=8", "model.num_hidden_layers=2",
                    "model.intermediate_size=176", "data.sequence_length=96"}};
    for (int i = 0; i < 2; i++)
        same_branches_on(some, 3, sets[i], 7);
}

// More tensor ranks than key-value heads: each has branches of its share of a head's columns.
TEST(shared_heads) {
    static const bits_case some[] = {{2, 1, 1, 1, {SHARED}}, {4, 1, 1, 1, {SHARED}},
            {4, 1, 2, 1, {WHOLE}}};
    const char *const sets[][5] = {{fp32, all_linear, tied, dropped, "model.num_key_value_heads=2"},
            {bf16, "lora.target_modules=[k_proj, v_proj]", untied, kept,
                    "model.num_key_value_heads=2"}};
    for (int i = 0; i < 2; i++)
        same_branches_on(some, i == 0 ? 3 : 2, sets[i], 5);
}

// Rows in four reduction blocks. Where tensor ranks share the tokens, those of a reduction block
// may be on several.
TEST(context_ranks_too) {
    static const bits_case some[] = {{1, 2, 1, 1, {NULL}},
            {1, 4, 1, 1, {"training.recompute=full"}}, {2, 1, 1, 1, {SHARED}},
            {4, 2, 1, 1, {SHARED}}, {4, 2, 1, 1, {WHOLE}}, {2, 4, 1, 1, {SHARED}},
            {1, 2, 2, 1, {ZERO0}}, {2, 2, 2, 1, {SHARED, "training.recompute=selective"}},
            {1, 2, 1, 2, {"parallel.schedule=zb-h1"}}, {2, 2, 1, 2, {SHARED}}};
    const char *const sets[][6] = {{fp32, all_linear, tied, dropped, "data.sequence_length=40",
                                           "parallel.context_blocks=4"},
            {bf16, all_linear, untied, dropped, "data.sequence_length=40",
                    "parallel.context_blocks=4"},
            {bf16, q_and_v, dropped, "training.micro_batch_size=2", "data.sequence_length=56",
                    "parallel.context_blocks=4"}};
    for (int i = 0; i < 3; i++)
        same_branches_on(some, sizeof some / sizeof *some, sets[i], 6);
}

// Context ranks beside tensor ranks that share a key-value head, and beside those that have one or
// both.
TEST(context_ranks_and_shared_heads) {
    static const bits_case some[] = {{4, 2, 1, 1, {SHARED}}, {4, 1, 1, 1, {WHOLE}},
            {2, 4, 1, 1, {SHARED}}, {8, 1, 1, 1, {SHARED, "training.recompute=full"}},
            {4, 1, 2, 1, {SHARED, ZERO0}}, {1, 4, 1, 2, {NULL}}};
    const char *const sets[][7] = {{fp32, all_linear, dropped, "model.num_key_value_heads=2",
                                           "model.num_attention_heads=8",
                                           "model.intermediate_size=176",
                                           "parallel.context_blocks=4"},
            {bf16, "lora.target_modules=[k_proj, v_proj]", kept, "model.num_key_value_heads=2",
                    "model.num_attention_heads=16", "model.intermediate_size=176",
                    "parallel.context_blocks=4"}};
    for (int i = 0; i < 2; i++)
        same_branches_on(some, sizeof some / sizeof *some, sets[i], 7);
}

// The number of reduction blocks decides: with others the bits are others, so the cases above say
// something.
TEST(blocks_decide) {
    const char *sets[] = {fp32, q_and_v, "parallel.tensor_blocks=4", RANK};
    layout_run four = run_case(&alone, sets, 4);
    sets[2] = "parallel.tensor_blocks=1";
    layout_run chain = run_case(&alone, sets, 4);
    assert_memory_not_equal(chain.weights, four.weights, sizeof(float) * (size_t)four.n_weights);
    free(four.weights), free(chain.weights);
}
