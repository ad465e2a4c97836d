// Models replayed from disk against transformers' and PEFT's logits, and compared with each other.
#include "harness.h"

#include <math.h>

#include "convert/convert.h"

// Rows of tokens in a golden file as prompts.
static replay_prompts golden_prompts(arena *a, const st_file *golden, int n_rows) {
    const st_tensor *t = st_find(golden, "tokens");
    const int seq = (int)t->dim[1], n = n_rows * seq;
    replay_prompts p = {ARENA_ARRAY(a, int32_t, n), ARENA_ARRAY(a, int32_t, n), n, 0};
    float *ids = ARENA_ARRAY(a, float, n);
    OK(st_read_f32(golden, t, 0, n, ids));
    for (int i = 0; i < n; i++)
        p.ids[i] = (int32_t)ids[i], p.position[i] = i % seq;
    return p;
}

// Largest difference of a model's logits from those of a golden file.
static double replay_error(arena *a, const model *base, const char *golden, const char *name,
        int n_rows) {
    st_file file;
    replay *r;
    OK(st_open(a, golden, &file));
    const replay_prompts prompts = golden_prompts(a, &file, n_rows);
    const int64_t n = prompts.n, vocab = base->config.vocab_size;
    double *expected = ARENA_ARRAY(a, double, n *vocab), worst = 0;
    float *hidden = ARENA_ARRAY(a, float, n * base->config.hidden_size),
          *logits = ARENA_ARRAY(a, float, n *vocab);
    OK(st_read_raw(&file, st_find(&file, name), 0, 8 * n * vocab, expected));
    OK(replay_open(a, &base->config, &prompts, &r));
    assert_true(replay_logit_rows(r) >= vocab);
    OK(replay_hidden(r, base, "", hidden));
    OK(replay_logits(r, base, hidden, 0, vocab, logits));
    for (int64_t i = 0; i < n * vocab; i++)
        if (fabs((double)logits[i] - expected[i]) > worst)
            worst = fabs((double)logits[i] - expected[i]);
    replay_close(r);
    st_close(&file);
    return worst;
}

TEST(replays_as_transformers) {
    static const char *const names[] = {"tied", "untied_llama3"};
    for (int i = 0; i < 2; i++) {
        model m;
        const char *folder = golden_path(a, names[i]);
        OK(model_open(a, folder, &m));
        const double error =
                replay_error(a, &m, path_join(a, folder, "golden.safetensors"), "logits", 4);
        if (error > 2e-5) fail_msg("%s: logits differ by %g", names[i], error);
        model_close(&m);
    }
}

TEST(replays_adapters_as_peft) {
    static const struct {
        const char *base, *adapter;
    } cases[] = {{"tied", "plain"}, {"tied", "one_layer"}, {"untied_llama3", "patterns"},
            {"tied", "expressions"}};
    for (int i = 0; i < 4; i++) {
        model m;
        adapter ad;
        const char *folder = golden_path(a, arena_printf(a, "adapters/%s", cases[i].adapter));
        OK(model_open(a, golden_path(a, cases[i].base), &m));
        OK(adapter_open(a, folder, &ad));
        m.adapter = &ad;
        const double error =
                replay_error(a, &m, path_join(a, folder, "golden.safetensors"), "logits", 1);
        if (error > 5e-5) fail_msg("%s: logits differ by %g", cases[i].adapter, error);
        adapter_close(&ad);
        model_close(&m);
    }
}

// What drover merges gives the logits of PEFT's merge_and_unload.
TEST(merges_as_peft) {
    static const struct {
        const char *base, *adapter;
    } cases[] = {{"tied", "plain"}, {"tied", "one_layer"}, {"untied_llama3", "patterns"},
            {"tied", "expressions"}};
    for (int i = 0; i < 4; i++) {
        const char *folder = golden_path(a, arena_printf(a, "adapters/%s", cases[i].adapter)),
                   *out = path_join(a, temporary_dir(a), "merged");
        const model_write_opts opts = {.verb = "merge"};
        convert_result result;
        model m;
        OK(convert_merge(a, golden_path(a, cases[i].base), folder, out, &opts, true, &result));
        assert_true(result.compared && !result.comparison.problem);
        assert_true(result.comparison.effect > 0.1);
        OK(model_open(a, out, &m));
        const double error =
                replay_error(a, &m, path_join(a, folder, "golden.safetensors"), "merged_logits", 1);
        if (error > 5e-5) fail_msg("%s: logits differ by %g", cases[i].adapter, error);
        model_close(&m);
    }
}

// --- an output weight of its own
// PEFT adds the branch to the output alone, which a model that ties it cannot hold when it is
// merged: refused, whether the file has the weight twice or not. Untied it gives PEFT's logits.
TEST(adapter_of_a_tied_head) {
    const char *folder = golden_path(a, "adapters/head"),
               *untied = golden_with_head(a, false, true),
               *tied[] = {golden_path(a, "tied"), golden_with_head(a, true, true)},
               *out = path_join(a, temporary_dir(a), "merged");
    const model_write_opts opts = {.verb = "merge"};
    convert_result result;
    model m;
    for (int i = 0; i < 2; i++)
        FAILS(convert_merge(a, tied[i], folder, out, &opts, true, &result), DRV_E_DATA,
                "belongs to \"lm_head.weight\", of which base");
    assert_false(file_exists(out));
    OK(convert_merge(a, untied, folder, out, &opts, true, &result));
    OK(model_open(a, out, &m));
    const double error =
            replay_error(a, &m, path_join(a, folder, "golden.safetensors"), "logits", 1);
    if (error > 5e-5) fail_msg("logits differ by %g", error);
    model_close(&m);
}

// transformers takes it for the embedding too, which a model that does not tie them has not.
TEST(head_alone) {
    model tied, other, untied;
    char hash[2][33];
    OK(model_open(a, golden_with_head(a, true, false), &tied));
    OK(model_open(a, golden_path(a, "tied"), &other));
    OK(model_hash(&tied, hash[0]));
    OK(model_hash(&other, hash[1]));
    assert_string_equal(hash[0], hash[1]);
    FAILS(model_open(a, golden_with_head(a, false, false), &untied), DRV_E_DATA,
            "has no tensor \"model.embed_tokens.weight\"");
    model_close(&tied);
    model_close(&other);
}

// A proof in which the adapter's module takes no part proves nothing.
TEST(proof_without_the_adapter) {
    const char *tied = golden_with_head(a, true, true);
    model base, other;
    adapter ad;
    comparison c;
    OK(model_open(a, tied, &base));
    OK(model_open(a, tied, &other));
    OK(adapter_open(a, golden_path(a, "adapters/head"), &ad));
    base.adapter = &ad;
    OK(compare_models(a, &base, &other, true, &c));
    assert_non_null(c.problem);
    assert_non_null(strstr(c.problem, "lm_head.weight, which is not a weight of the model"));
    adapter_close(&ad);
    model_close(&base);
    model_close(&other);
}

// A result that is not good is put beside its place; one that could not be looked at leaves nothing.
static drv_status not_good(void *ctx, out_folder *o, bool *good) {
    *good = false;
    return ctx ? drv_fail(DRV_E_IO, "no look") : out_folder_put(o, "verify.json", "{}", 2);
}

TEST(unproved) {
    const char *out = path_join(a, temporary_dir(a), "out");
    model m;
    OK(model_open(a, golden_path(a, "tied"), &m));
    const st_entry one = m.tensors[0].entry;
    for (int i = 0; i < 3; i++) {
        model_written written;
        const model_write_opts opts = {.verb = "export", .proof = {not_good, i == 2 ? &m : NULL}};
        if (i == 2)
            FAILS(model_write(a, &m.source, &one, 1, out, &opts, &written), DRV_E_IO, "no look");
        else
            OK(model_write(a, &m.source, &one, 1, out, &opts, &written));
        assert_false(file_exists(out));
        assert_false(file_exists(arena_printf(a, "%s" FILE_ASIDE, out)));
    }
    assert_true(file_exists(arena_printf(a, "%s.unproved/verify.json", out)));
    assert_true(file_exists(arena_printf(a, "%s.unproved-2/model.safetensors", out)));
    assert_false(file_exists(arena_printf(a, "%s.unproved-3", out)));
    model_close(&m);
}

// A tokenizer goes out with a model that has a row for each of its tokens, and with no other.
TEST(tokens_without_a_row) {
#define VOCAB "\"model\": {\"vocab\": {\"a\": 0, \"b\": "
    static const struct {
        const char *tokenizer, *config, *says; // NULL: it is written
    } cases[] = {
            {"{" VOCAB "95}}}", "{}", NULL},
            {"{" VOCAB "96}}}", "{}",
                    "tokenizer.json: token \"b\" has id 96, but the model has 96"},
            {"{" VOCAB "1}}, \"added_tokens\": [{\"id\": 96, \"content\": \"<x>\"}]}", "{}",
                    "tokenizer.json: token \"<x>\" has id 96"},
            {"{" VOCAB "1}}, \"added_tokens\": [{\"id\": 96, \"content\": \"b\"}]}", "{}", NULL},
            {"{" VOCAB "1}}}", "{\"added_tokens_decoder\": {\"200\": {\"content\": \"<y>\"}}}",
                    "tokenizer_config.json: token \"<y>\" has id 200"},
            {"{" VOCAB "1}}}", "{\"added_tokens_decoder\": {\"95\": {\"content\": \"<y>\"}}}",
                    NULL},
            {"no JSON", "{}", NULL}, // a warning of those who read it
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *out = path_join(a, temporary_dir(a), "out");
        const ckpt_carried files[] = {{.name = "tokenizer.json",
                                              .bytes = cases[i].tokenizer,
                                              .n = strlen(cases[i].tokenizer)},
                {.name = "tokenizer_config.json",
                        .bytes = cases[i].config,
                        .n = strlen(cases[i].config)}};
        const model_write_opts opts = {.verb = "export", .files = files, .n_files = 2};
        model_written written;
        model m;
        OK(model_open(a, golden_path(a, "tied"), &m));
        const st_entry one = m.tensors[0].entry;
        if (cases[i].says)
            FAILS(model_write(a, &m.source, &one, 1, out, &opts, &written), DRV_E_DATA,
                    cases[i].says);
        else
            OK(model_write(a, &m.source, &one, 1, out, &opts, &written));
        assert_int_equal(file_exists(out), !cases[i].says);
        model_close(&m);
    }
}
