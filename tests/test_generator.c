// A model and the caches of its sequence: the logits after a prompt of any length are those of
// transformers (tools/golden_generation.py) and of the whole prompt in one program; they do not
// depend on how the prompt came.
#include "harness.h"

#include <math.h>
#include <unistd.h>

#include "source/safetensors.h"
#include "infer/generate.h"

enum { VOCAB = 96, CONTEXT = 512 };

static const char *const models[] = {"tied", "untied_llama3", "mistral", "qwen2_window", "qwen2",
        "qwen3"};
enum { N_MODELS = sizeof models / sizeof *models };
// About the blocks of a prompt (16, 64, 256 tokens, and one token that is not among them), of
// queries and of keys; a full context.
static const int lengths[] = {1, 2, 16, 17, 63, 64, 65, 66, 80, 100, 127, 128, 129, 256, 257, 300,
        512};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

static void prompt_of(int64_t n, int32_t *ids) {
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((7919 * i + 13) % VOCAB);
}

// The golden models come without a tokenizer: one of the others stands beside it.
static const char *model_folder(arena *a, const char *name) {
    static const char *const files[][2] = {{"", "config.json"}, {"", "model.safetensors"},
            {"tokenizers/sentencepiece", "tokenizer.json"}};
    const char *folder = temporary_dir(a);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *from = golden_path(a, *files[i][0] ? files[i][0] : name);
        if (symlink(path_join(a, from, files[i][1]), path_join(a, folder, files[i][1])) != 0)
            fail_msg("symlink %s", files[i][1]);
    }
    return folder;
}

typedef struct opened {
    arena *a;
    generator_opts opts;
    generator *g;
} opened;

static opened *open_model(const char *name, generate_precision asked) {
    arena *a = arena_new("test");
    opened *m = ARENA_NEW(a, opened);
    *m = (opened){.a = a, .opts = {.folder = model_folder(a, name), .precision = asked}};
    OK(generator_open(a, &m->opts, &m->g));
    OK(generator_load(m->g, 0));
    return m;
}

static void close_model(opened *m) {
    generator_close(m->g);
    arena_free(m->a);
}

static void logits_after(generator *g, const int32_t *ids, int64_t n, float *out) {
    prompt_cost cost;
    float *logits;
    OK(generator_prompt(g, ids, n, &cost));
    OK(generator_logits(g, &logits));
    memcpy(out, logits, sizeof *out * VOCAB);
}

static void expect_near(const char *what, int64_t n_tokens, const float *got, const float *want,
        double bound) {
    double x[VOCAB], y[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        x[i] = (double)got[i], y[i] = (double)want[i];
    const double error = relative_error(x, y, VOCAB);
    if (!(error <= bound))
        fail_msg("%s, %lld tokens: relative error %.3g, expected at most %.3g", what,
                (long long)n_tokens, error, bound);
}

// fp32: the tolerance of test_golden.c. bf16 rounds weights and activations to 8 bits.
TEST(any_length_is_transformers) {
    int32_t ids[CONTEXT];
    prompt_of(CONTEXT, ids);
    for (int i = 0; i < 2 * N_MODELS; i++) {
        const bool bf16 = i >= N_MODELS;
        opened *m = open_model(models[i % N_MODELS], bf16 ? GENERATE_BF16 : GENERATE_FP32);
        st_file golden;
        OK(st_open(m->a, golden_path(m->a, "generation.safetensors"), &golden));
        for (int k = 0; k < N_LENGTHS; k++) {
            float got[VOCAB], want[VOCAB];
            char name[64];
            snprintf(name, sizeof name, "%s.%d", models[i % N_MODELS], lengths[k]);
            OK(st_read_f32(&golden, st_find(&golden, name), 0, VOCAB, want));
            // Nothing is kept of the prompt before: its first token is another.
            const int32_t other = (ids[0] + 1) % VOCAB;
            logits_after(m->g, &other, 1, got);
            logits_after(m->g, ids, lengths[k], got);
            expect_near(name, lengths[k], got, want, bf16 ? 0.06 : 1e-5);
        }
        close_model(m);
    }
}

// The same products by the same kernels, but for the last token, which decoding multiplies as a
// row: whole prompts in one program give nearly the same.
TEST(the_whole_prompt_in_one_program) {
    for (int i = 0; i < 2 * N_MODELS; i++) {
        const bool bf16 = i >= N_MODELS;
        opened *model = open_model(models[i % N_MODELS], bf16 ? GENERATE_BF16 : GENERATE_FP32);
        const char *sets[] = {arena_printf(model->a, "model.from=%s", model->opts.folder),
                "model.weights=load", bf16 ? "training.precision=bf16" : "training.precision=fp32",
                "data.sequence_length=128", "training.global_batch_size=1",
                "training.micro_batch_size=1"};
        test_run *run = test_run_open(sets, 6);
        OK(state_load_weights(&run->p.held, model->opts.folder));
        int32_t ids[128], position[128];
        float got[VOCAB], *want = ARENA_ARRAY(model->a, float, 128 * VOCAB);
        uint16_t *words = ARENA_ARRAY(model->a, uint16_t, 128 * VOCAB);
        prompt_of(128, ids);
        for (int t = 0; t < 128; t++)
            position[t] = t;
        const llama_opts shape = {.rows = 1, .seq = 128, .dt = run->p.held.dt};
        executable *e;
        OK(backend_compile(run->a, run->p.held.b,
                llama_build(run->a, &run->p.held.params, LLAMA_LOGITS, &shape), NULL, &e));
        OK(backend_write(run->p.held.b, "tokens", 0, sizeof ids, ids));
        OK(backend_write(run->p.held.b, "position", 0, sizeof position, position));
        OK(backend_run(run->p.held.b, e));
        OK(backend_read(run->p.held.b, "logits", 0, (bf16 ? 2 : 4) * 128 * VOCAB,
                bf16 ? (void *)words : (void *)want));
        for (int k = 0; k < 128 * VOCAB && bf16; k++)
            want[k] = bf16_to_f32(words[k]);
        for (int n = 1; n <= 128; n++) {
            const int32_t other = (ids[0] + 1) % VOCAB;
            logits_after(model->g, &other, 1, got);
            logits_after(model->g, ids, n, got);
            expect_near(models[i % N_MODELS], n, got, want + (n - 1) * VOCAB, bf16 ? 0.03 : 1e-5);
        }
        test_run_close(run);
        close_model(model);
    }
}

// However a prompt comes, in pieces or after another one that began alike: the same bits.
TEST(a_prompt_may_come_in_pieces) {
    static const int pieces[][4] = {{300}, {65, 300}, {17, 81, 300}, {1, 2, 3, 300},
            {64, 128, 256, 300}};
    int32_t ids[CONTEXT], other[CONTEXT];
    float want[VOCAB], got[VOCAB];
    prompt_of(CONTEXT, ids);
    for (generate_precision asked = GENERATE_BF16; asked <= GENERATE_FP32; asked++) {
        opened *model = open_model("tied", asked);
        float shorter[VOCAB];
        logits_after(model->g, ids, 200, shorter);
        logits_after(model->g, ids + 5, 40, got); // another one
        logits_after(model->g, ids, 300, want);
        logits_after(model->g, ids, 200, got); // the beginning alone
        assert_memory_equal(got, shorter, sizeof got);
        for (int i = 0; i < 5; i++) {
            prompt_cost cost;
            logits_after(model->g, ids + 5, 40, got); // another one
            for (int k = 0; k < 4 && pieces[i][k]; k++)
                OK(generator_prompt(model->g, ids, pieces[i][k], &cost));
            logits_after(model->g, ids, 300, got);
            assert_memory_equal(got, want, sizeof got);
        }
        memcpy(other, ids, sizeof ids);
        other[123] = (other[123] + 1) % VOCAB;
        logits_after(model->g, other, 400, got);
        prompt_cost cost;
        OK(generator_prompt(model->g, ids, 300, &cost));
        assert_int_equal(cost.n_tokens, 299 - 123); // the beginning is kept
        logits_after(model->g, ids, 300, got);
        assert_memory_equal(got, want, sizeof got);
        close_model(model);
    }
}

// A token that was added is as good as one of a prompt: c eps sqrt(K) of other orders of sums.
TEST(turns_of_a_conversation) {
    int32_t ids[CONTEXT];
    float want[VOCAB], got[VOCAB], *logits;
    prompt_of(CONTEXT, ids);
    opened *m = open_model("untied_llama3", GENERATE_FP32);
    logits_after(m->g, ids, 200, want);
    logits_after(m->g, ids + 1, 10, got);
    logits_after(m->g, ids, 100, got);
    for (int i = 100; i < 150; i++) {
        generator_add(m->g, ids[i]);
        OK(generator_logits(m->g, &logits));
    }
    prompt_cost cost;
    OK(generator_prompt(m->g, ids, 200, &cost));
    assert_int_equal(cost.n_tokens, 49);
    logits_after(m->g, ids, 200, got);
    expect_near("turns", 200, got, want, 1e-5);
    assert_int_equal(generator_sequence(m->g)->n, 200);
    close_model(m);
}

static bool after_some_calls(void *ctx) {
    return (*(int *)ctx)-- <= 0;
}

TEST(interrupted) {
    int32_t ids[CONTEXT];
    float want[VOCAB], got[VOCAB];
    prompt_of(CONTEXT, ids);
    opened *m = open_model("tied", GENERATE_FP32);
    int calls = 1;
    logits_after(m->g, ids, 400, want);
    logits_after(m->g, ids + 5, 10, got);
    m->opts.interrupted = after_some_calls;
    m->opts.ctx = &calls;
    prompt_cost cost;
    FAILS(generator_prompt(m->g, ids, 400, &cost), DRV_STOPPED, "interrupted");
    assert_true(cost.n_tokens >= 1 && cost.n_tokens <= 398);
    m->opts.interrupted = NULL;
    logits_after(m->g, ids, 400, got); // continues where it was
    assert_memory_equal(got, want, sizeof got);
    m->opts.interrupted = after_some_calls;
    calls = 7;
    generate_result r;
    OK(generate(m->g, &(generate_opts){.sampling = {.top_p = 1, .repetition_penalty = 1}}, &r));
    if (r.end == GENERATE_INTERRUPTED) assert_int_equal(r.ids.n, 7);
    assert_int_equal(generator_sequence(m->g)->n, 400 + r.ids.n);
    generate_result_free(&r);
    close_model(m);
}

TEST(room) {
    generator_opts opts = {.folder = model_folder(a, "tied"), .precision = GENERATE_FP32};
    generator *g;
    OK(generator_open(a, &opts, &g));
    assert_int_equal(generator_capacity(g), 0);
    FAILS(generator_load(g, CONTEXT + 1), DRV_E_USAGE,
            "513 tokens are more than the model's context of 512");
    OK(generator_load(g, 20));
    int32_t ids[18];
    prompt_of(18, ids);
    prompt_cost cost;
    generate_result r;
    OK(generator_prompt(g, ids, 18, &cost));
    OK(generate(g, &(generate_opts){.sampling = {.top_p = 1, .repetition_penalty = 1}}, &r));
    assert_true(r.ids.n == 2 || r.end == GENERATE_STOP);
    generate_result_free(&r);
    generator_close(g);
}

// However many tokens generation_config.json names: each of them ends a text.
TEST(many_ends) {
    enum { N_ENDS = 60 };
    generator_opts opts = {.folder = model_folder(a, "tied"), .precision = GENERATE_FP32};
    generator *g;
    json_t *ids = json_array();
    for (int i = 0; i < N_ENDS; i++)
        json_array_append_new(ids, json_integer(i));
    OK(json_write_file(path_join(a, opts.folder, "generation_config.json"),
            json_pack("{s:o}", "eos_token_id", ids)));
    OK(generator_open(a, &opts, &g));
    for (int i = 0; i < N_ENDS; i++)
        assert_true(generator_is_end(g, i));
    assert_false(generator_is_end(g, N_ENDS + 1));
    generator_close(g);
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
