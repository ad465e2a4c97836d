// generation_config.json through the metadata of a GGUF file and back: what transformers does with
// it stays, and each key that is gone is named.
#include "harness.h"

#include "base/json.h"
#include "gguf/llama_generation.h"
#include "gguf/vocabulary.h"

// The metadata of a small model with a generation_config.json, and the ids that end its texts.
static void put_model(gguf_builder *b, const json_t *generation, const int64_t *eos, int n_eos) {
    static const char *const numbers[] = {"block_count", "context_length", "embedding_length",
            "feed_forward_length", "attention.head_count", "attention.head_count_kv",
            "attention.key_length", "attention.value_length"};
    const int64_t dim[2] = {8, 16};
    const tokenizer_texts texts =
            {.folder = "", .vocab_size = 16, .bos = -1, .pad = -1, .eos = eos, .n_eos = n_eos};
    gguf_put_text(b, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char key[64];
        snprintf(key, sizeof key, "llama.%s", numbers[i]);
        gguf_put_u32(b, key, 8);
    }
    gguf_put_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    llama_generation_put(generation, b);
    OK(vocabulary_put(&texts, b));
    gguf_put_tensor(b, "token_embd.weight", QUANT_F32, dim, 2);
}

// What the file says; the caller owns the value.
static json_t *read_back(arena *a, gguf_builder *b) {
    str file = {0};
    gguf_file f;
    llama_meta m;
    json_t *out;
    gguf_builder_header(b, &file);
    str_reserve(&file, 512);
    memset(file.p + file.n, 0, 512);
    OK(gguf_parse(a, "x.gguf", file.p, file.n + 512, &f));
    OK(llama_meta_read(a, &f, &m));
    OK(llama_generation_json(&f, &m, &out));
    gguf_builder_free(b);
    str_free(&file);
    return out;
}

static json_t *back_of(arena *a, const char *text, const int64_t *eos, int n_eos,
        const char **lost) {
    gguf_builder b = {0};
    json_t *before;
    OK(json_read_bytes("before", text, strlen(text), &before));
    put_model(&b, before, eos, n_eos);
    json_t *after = read_back(a, &b);
    *lost = llama_config_lost(a, before, after);
    json_decref(before);
    return after;
}

// --- every combination
typedef struct meaning { // what transformers does
    bool draws;
    double value[5]; // 0: its default; all but the last count only where it draws
} meaning;

static const char *const names[] = {"temperature", "top_k", "top_p", "min_p", "repetition_penalty"};
static const double defaults[] = {1, 0, 0, 0, 0};

static meaning meaning_of(const json_t *o) {
    meaning m = {.draws = json_is_true(json_object_get(o, "do_sample"))};
    for (int i = 0; i < 5; i++) {
        const json_t *x = json_object_get(o, names[i]);
        if (i == 4 || m.draws) m.value[i] = json_is_number(x) ? json_number_value(x) : defaults[i];
    }
    return m;
}

TEST(meaning_stays) {
    static const char *const draws[] = {"", "\"do_sample\": false, ", "\"do_sample\": true, ",
            "\"do_sample\": null, "},
                             *const values[][3] = {{"null", "0.6", "1.0"}, {"null", "50", "-1"},
                                     {"null", "0.9", "1"}, {"null", "0.05", "0"},
                                     {"null", "1.1", "1"}};
    for (int i = 0; i < 4 * 3 * 3 * 3 * 3 * 3; i++) {
        str text = {0};
        const char *lost;
        str_printf(&text, "{%s\"use_cache\": true", draws[i % 4]);
        for (int k = 0, rest = i / 4; k < 5; k++, rest /= 3)
            str_printf(&text, ", \"%s\": %s", names[k], values[k][rest % 3]);
        str_puts(&text, "}");
        json_t *before, *after = back_of(a, text.p, NULL, 0, &lost);
        OK(json_read_bytes("before", text.p, text.n, &before));
        const meaning x = meaning_of(before), y = meaning_of(after);
        char *printed = json_dumps(after, 0);
        if (memcmp(&x, &y, sizeof x) != 0) fail_msg("%s becomes %s", text.p, printed);
        for (int k = 0; k < 5; k++) {
            const json_t *was = json_object_get(before, names[k]),
                         *is = json_object_get(after, names[k]);
            const bool named = lost && strstr(lost, names[k]);
            if (named != (json_is_number(was) && !json_is_number(is)))
                fail_msg("%s becomes %s, which loses: %s", text.p, printed, lost ? lost : "-");
        }
        free(printed);
        json_decref(before);
        json_decref(after);
        str_free(&text);
    }
}

// --- ends and other keys
TEST(ends_and_others) {
    static const struct {
        const char *text;
        int64_t eos[4]; // of the model
        int n_eos;
        const char *back, *lost; // of eos_token_id; of all
    } cases[] = {{"{}", {0}, 0, "null", NULL}, {"{\"eos_token_id\": 2}", {2}, 1, "2", NULL},
            {"{\"eos_token_id\": [2, 0]}", {2, 0}, 2, "[2,0]", NULL},
            {"{\"eos_token_id\": [0, 2]}", {2, 0}, 2, "[2,0]", NULL},
            {"{\"eos_token_id\": [5, 2, 0]}", {5, 2, 0}, 3, "[5,2,0]", NULL},
            {"{\"eos_token_id\": [5, 2, 0, 1]}", {5, 2, 0, 1}, 4, "[5,2,0]",
                    "eos_token_id [5, 2, 0, 1] becomes [5, 2, 0]"},
            {"{\"max_new_tokens\": 9, \"_from_model_config\": true, \"num_beams\": 2}", {1}, 1, "1",
                    "max_new_tokens 9, num_beams 2"},
            {"{\"pad_token_id\": 3, \"output_scores\": false}", {1}, 1, "1", "pad_token_id 3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *lost;
        json_t *after = back_of(a, cases[i].text, cases[i].eos, cases[i].n_eos, &lost);
        char *eos =
                json_dumps(json_object_get(after, "eos_token_id"), JSON_ENCODE_ANY | JSON_COMPACT);
        assert_string_equal(eos, cases[i].back);
        assert_string_equal(lost ? lost : "", cases[i].lost ? cases[i].lost : "");
        free(eos);
        json_decref(after);
    }
}

// What others write: llama.cpp takes the likeliest token where the temperature is 0.
TEST(files_of_others) {
    gguf_builder b = {0};
    put_model(&b, NULL, NULL, 0);
    gguf_put_f32(&b, "general.sampling.temp", 0);
    gguf_put_u32(&b, "general.sampling.top_k", 40);
    gguf_put_f32(&b, "general.sampling.xtc_probability", 0.5F);
    json_t *after = read_back(a, &b);
    assert_true(json_is_false(json_object_get(after, "do_sample")));
    assert_null(json_object_get(after, "top_k"));
    assert_null(json_object_get(after, "temperature"));
    json_decref(after);
}
