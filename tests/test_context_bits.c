// Context ranks give the bits of one rank that has as many reduction blocks of the row: any degree,
// beside tensor, data and pipeline ranks and ZeRO, whatever the type, the ties, the vocabulary and
// the documents of a row (docs/adr/0015).
#include "layout_run.h"

typedef struct mesh_case {
    int tensor, context, pipeline, data;
} mesh_case;

typedef struct model_case {
    const char *sets[8];
    int n_sets;
} model_case;

enum { BLOCKS = 4 };

static layout_run run_case(const mesh_case *c, const model_case *model, int blocks,
        const char *more) {
    arena *a = arena_new("sets");
    const char *all[16];
    int n = 0;
    all[n++] = "training.global_batch_size=4"; // two accumulation groups of two micro-batches
    all[n++] = "parallel.accumulation_groups=2";
    for (int i = 0; i < model->n_sets; i++)
        all[n++] = model->sets[i];
    all[n++] = arena_printf(a, "parallel.tensor=%d", c->tensor);
    all[n++] = arena_printf(a, "parallel.context=%d", c->context);
    all[n++] = arena_printf(a, "parallel.pipeline=%d", c->pipeline);
    all[n++] = arena_printf(a, "parallel.context_blocks=%d", blocks);
    if (more) all[n++] = more;
    print_message("tensor %d, context %d of %d, pipeline %d, data %d, %s, %s\n", c->tensor,
            c->context, blocks, c->pipeline, c->data, model->sets[0], more ? more : "");
    layout_run r = train_layout(c->tensor * c->context * c->pipeline * c->data, all, n);
    arena_free(a);
    return r;
}

static const mesh_case alone = {1, 1, 1, 1};

static void same_bits_on(const mesh_case *cases, int n_cases, const model_case *model, int blocks,
        const char *more) {
    layout_run one = run_case(&alone, model, blocks, NULL);
    for (int i = 0; i < n_cases; i++) {
        layout_run several = run_case(&cases[i], model, blocks, more);
        expect_same_bits(&several, &one);
        free(several.weights);
    }
    free(one.weights);
}

// Two key-value heads, 509 words, rows of two documents; 40 tokens are 8 chunks of 5.
static const model_case fp32 = {{"training.precision=fp32", "model.num_attention_heads=4",
                                        "model.num_key_value_heads=2", "model.vocab_size=509",
                                        "model.tie_word_embeddings=true"},
        5};
static const model_case bf16 = {{"training.precision=bf16", "model.num_attention_heads=4",
                                        "model.num_key_value_heads=2", "model.vocab_size=509",
                                        "model.tie_word_embeddings=false"},
        5};

// All of {tensor 1, 2} x {context 1, 2, 4} x {pipeline 1, 2} x {data 1, 2} that 8 ranks hold.
static int every_mesh(mesh_case *out) {
    int n = 0;
    for (int i = 1; i < 24; i++) {
        const mesh_case c = {1 + i % 2, 1 << i / 8, 1 + i / 2 % 2, 1 + i / 4 % 2};
        if (c.tensor * c.context * c.pipeline * c.data <= 8) out[n++] = c;
    }
    return n;
}

TEST(every_mesh_fp32) {
    mesh_case all[24];
    same_bits_on(all, every_mesh(all), &fp32, BLOCKS, NULL);
}

TEST(every_mesh_bf16) {
    mesh_case all[24];
    same_bits_on(all, every_mesh(all), &bf16, BLOCKS, NULL);
}

// Tensor ranks beyond the two key-value heads: several share one, and its query heads are in
// reduction blocks on whoever has fewer of them. Every degree of both axes, beside pipelines and
// data.
TEST(ranks_that_share_a_head) {
    static const mesh_case some[] = {{4, 1, 1, 1}, {4, 2, 1, 1}, {2, 4, 1, 1}, {8, 1, 1, 1},
            {1, 4, 1, 1}, {1, 2, 2, 2}, {4, 1, 2, 1}, {4, 1, 1, 2}};
    static const char *const more[] = {"parallel.sequence=false", "training.recompute=full"};
    model_case grouped[] = {fp32, bf16};
    for (int i = 0; i < 2; i++) {
        grouped[i].sets[1] = "model.num_attention_heads=16";
        grouped[i].sets[grouped[i].n_sets++] = "model.intermediate_size=176";
        grouped[i].sets[grouped[i].n_sets++] = "model.num_hidden_layers=2";
        same_bits_on(some, 8, &grouped[i], BLOCKS, NULL);
        same_bits_on(some, 3, &grouped[i], BLOCKS, more[i]);
    }
}

// Without ZeRO, without shared tokens, with several rows a micro-batch, recomputed.
TEST(beside_other_keys) {
    static const mesh_case some[] = {{1, 2, 1, 2}, {2, 1, 1, 2}, {2, 2, 2, 1}, {1, 1, 1, 2}};
    same_bits_on(some, 4, &fp32, BLOCKS, "parallel.zero=0");
    same_bits_on(some, 4, &bf16, BLOCKS, "parallel.sequence=false");
    model_case two_rows = bf16;
    two_rows.sets[two_rows.n_sets++] = "training.micro_batch_size=2";
    same_bits_on(some, 4, &two_rows, BLOCKS, "training.recompute=full");
}

// Accumulation groups are joined in a tree of their own before reduction blocks are, also where
// they are no power of two.
TEST(three_data_ranks) {
    static const mesh_case some[] = {{1, 1, 1, 3}, {1, 2, 1, 3}, {2, 2, 1, 3}};
    static const char *const levels[] = {"parallel.zero=0", "parallel.zero=1", "parallel.zero=2"};
    model_case three = fp32;
    three.sets[three.n_sets++] = "training.global_batch_size=6";
    three.sets[three.n_sets++] = "parallel.accumulation_groups=3";
    three.sets[three.n_sets++] = "model.num_hidden_layers=2";
    for (int zero = 0; zero < 3; zero++)
        for (int blocks = 2; blocks <= BLOCKS; blocks *= 2)
            same_bits_on(some, 3, &three, blocks, levels[zero]);
}

TEST(eight_ranks) {
    static const mesh_case chain[] = {{1, 2, 1, 1}, {1, 4, 1, 1}, {1, 8, 1, 1}, {1, 4, 1, 2}};
    model_case wide[] = {fp32, bf16};
    for (int i = 0; i < 2; i++) {
        // Rows of the head in several chunks, products longer than a block of the inner dimension.
        wide[i].sets[wide[i].n_sets++] = "data.sequence_length=1136";
        wide[i].sets[wide[i].n_sets++] = "model.num_hidden_layers=2";
        wide[i].sets[wide[i].n_sets++] = "model.max_position_embeddings=2048";
        same_bits_on(chain, i == 0 ? 4 : 3, &wide[i], 8, NULL);
    }
}

// What ranks send in the ring and in the update; several data ranks send each of their reduction
// blocks.
TEST(bytes_are_those_of_the_plan) {
    static const struct {
        mesh_case mesh;
        int blocks;
        const char *zero;
    } cases[] = {{{1, 2, 1, 1}, 2, "parallel.zero=1"}, {{1, 4, 1, 1}, 4, "parallel.zero=0"},
            {{1, 2, 1, 2}, 4, "parallel.zero=1"}, {{1, 2, 1, 2}, 4, "parallel.zero=0"},
            {{1, 1, 1, 2}, 4, "parallel.zero=1"}, {{2, 2, 1, 1}, 4, "parallel.zero=1"},
            {{4, 2, 1, 1}, 4, "parallel.zero=1"}};
    model_case even = bf16;
    even.sets[3] = "model.vocab_size=512"; // ranks have as much each
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        layout_run r = run_case(&cases[i].mesh, &even, cases[i].blocks, cases[i].zero);
        for (int axis = AXIS_DATA; axis <= AXIS_CONTEXT; axis++) {
            const double planned = STEPS * r.ranks * r.wire[axis];
            if (fabs((double)r.sent[axis] - planned) > 1e-9 * planned + 0.5)
                fail_msg("case %zu, %s axis: %lld bytes sent, %.1f planned", i,
                        mesh_axis_name((mesh_axis)axis), (long long)r.sent[axis], planned);
        }
        assert_true(
                r.sent[AXIS_DATA] > 0 && (cases[i].mesh.context > 1) == (r.sent[AXIS_CONTEXT] > 0));
        free(r.weights);
    }
}

// The number of reduction blocks decides, not the ranks: with others the bits are others, and the
// default on one rank is what it was.
TEST(blocks_decide) {
    layout_run four = run_case(&alone, &fp32, 4, NULL), two = run_case(&alone, &fp32, 2, NULL);
    assert_memory_not_equal(four.weights, two.weights, sizeof(float) * (size_t)two.n_weights);
    free(four.weights), free(two.weights);
}

TEST(blocks_that_do_not_divide_are_refused) {
    static const struct {
        const char *sets[2], *text;
    } cases[] = {{{"parallel.context=2", "parallel.context_blocks=6"},
                         "6, expected parallel.context 2 x 1, 2, 4"},
            {{"parallel.context=4", "parallel.context_blocks=2"}, "2, expected parallel.context 4"},
            {{"data.sequence_length=40", "parallel.context_blocks=8"},
                    "is 40, expected a multiple of 16: two chunks for each of parallel.context_blocks 8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(cases[i].sets[0], cases[i].sets[1], cases[i].text);
}
