// A Llama in GGUF: rotary scaling and back, rows of heads, names, merges from scores, refusals by
// key, pre-tokenizers both ways.
#include "harness.h"

#include <math.h>

#include "base/log.h"
#include "gguf/gguf_builder.h"
#include "gguf/llama_meta.h"
#include "gguf/llama_names.h"
#include "tok/score_merges.h"
#include "gguf/pre_types.h"
#include "gguf/vocabulary.h"

// --- rotary scaling
TEST(scaling_survives_its_divisors) {
    static const struct {
        llama3_rope rope;
        double theta;
        int64_t head_dim, hint;
        bool exact; // the same numbers, not only the same divisors
    } cases[] = {
            {{8, 1, 4, 8192}, 500000, 128, 0, true},    // Llama 3.1
            {{32, 1, 4, 8192}, 500000, 64, 0, true},    // Llama 3.2
            {{8, 1, 4, 32}, 500000, 16, 0, true},       // no frequency between the limits
            {{8, 1, 4, 64}, 500000, 32, 0, true},       // one
            {{4, 1, 4, 4096}, 10000, 64, 0, true},      //
            {{8, 1, 4, 6000}, 500000, 128, 0, true},    // no power of two
            {{8, 2, 8, 8192}, 500000, 128, 8192, true}, // the hint tells the scale
            {{8, 2, 8, 8192}, 500000, 128, 0, false},   // 1, 4 and 4096 are the same
            {{6.5, 1.5, 5, 3000}, 20000, 96, 3000, true}, {{3, 1, 2, 100}, 10000, 8, 0, false},
            {{1.5, 1, 1.25, 900}, 1000, 64, 0, false}, {{0, 0, 0, 0}, 10000, 64, 0, true}, // none
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t n_items = cases[i].head_dim / 2;
        float divisors[64], again[64];
        llama3_rope got;
        for (int64_t k = 0; k < n_items; k++)
            divisors[k] = 1;
        if (cases[i].rope.original_context)
            llama3_rope_divisors(&cases[i].rope, cases[i].theta, cases[i].head_dim, divisors);
        if (!llama3_rope_recover(divisors, cases[i].theta, cases[i].head_dim, cases[i].hint, &got))
            fail_msg("case %zu is not recovered", i);
        if (got.original_context == 0) {
            assert_int_equal(cases[i].rope.original_context, 0);
            continue;
        }
        llama3_rope_divisors(&got, cases[i].theta, cases[i].head_dim, again);
        for (int64_t k = 0; k < n_items; k++)
            if (fabsf(again[k] - divisors[k]) > 3e-5f * divisors[k])
                fail_msg("case %zu: divisor %lld is %g, expected %g", i, (long long)k,
                        (double)again[k], (double)divisors[k]);
        const llama3_rope *r = &cases[i].rope;
        if (cases[i].exact &&
                (got.factor != r->factor || got.low_freq_factor != r->low_freq_factor ||
                        got.high_freq_factor != r->high_freq_factor ||
                        got.original_context != r->original_context))
            fail_msg("case %zu: %g %g %g %lld", i, got.factor, got.low_freq_factor,
                    got.high_freq_factor, (long long)got.original_context);
    }
}

TEST(other_divisors_are_no_llama3) {
    float rising[32], odd[32], small[32];
    llama3_rope got;
    for (int i = 0; i < 32; i++) {
        rising[i] = 1 + (float)i;
        odd[i] = i == 7 ? 8 : 1;
        small[i] = 0.5f;
    }
    assert_false(llama3_rope_recover(rising, 10000, 64, 0, &got));
    assert_false(llama3_rope_recover(odd, 10000, 64, 0, &got));
    assert_false(llama3_rope_recover(small, 10000, 64, 0, &got));
    rising[3] = NAN;
    assert_false(llama3_rope_recover(rising, 10000, 64, 0, &got));
}

// --- names and rows
TEST(names_both_ways) {
    int layer;
    for (int i = 0; i < n_llama_names; i++) {
        const char *gguf = llama_name_print(a, llama_names[i].gguf, 12);
        assert_ptr_equal(llama_name_of_gguf(gguf, &layer), &llama_names[i]);
        assert_int_equal(layer, strstr(gguf, "12") ? 12 : -1);
    }
    static const char *const none[] = {"blk.0.attn_output.bias", "blk.x.attn_q.weight",
            "blk.01.attn_q.weight", "blk..attn_q.weight", "blk.1.attn_q.weight2", ""};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(llama_name_of_gguf(none[i], &layer));
}

// Hugging Face rotates row i with row i + half of a head, GGUF with the row beside it.
TEST(rows_of_a_head) {
    static const int64_t expected[] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}; // two heads of 6
    for (int64_t row = 0; row < 12; row++)
        assert_int_equal(llama_row_in_gguf(row, 6), expected[row]);
}

// --- merges from scores
// Expected by generate_merges of transformers 5.23 for these tokens and scores.
TEST(merges_of_scores) {
    static const char *const texts[] = {"a", "b", "ab", "ba", "aba", "é", "aé", "<s>"};
    static const float scores[] = {-9, -9, -2, -2, -1, -9, -3, 0};
    static const struct {
        const char *left, *right;
    } expected[] = {{"ab", "a"}, {"a", "ba"}, {"a", "b"}, {"b", "a"}, {"a", "é"}};
    gguf_text tokens[8];
    score_merge *list;
    int64_t n;
    for (int i = 0; i < 8; i++)
        tokens[i] = (gguf_text){texts[i], strlen(texts[i])};
    score_merges(a, tokens, scores, NULL, 8, &list, &n);
    assert_int_equal(n, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(texts[list[i].left], expected[i].left);
        assert_string_equal(texts[list[i].right], expected[i].right);
    }
}

// --- pre-tokenizers
TEST(pre_tokenizers_both_ways) {
    static const char *const written[] = {"gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "tekken",
            "gpt-4o"};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        const pre_type *t = pre_type_of(written[i]);
        json_t *json = bpe_words_json(&t->words);
        assert_ptr_equal(pre_type_of_json(json, t->ignore_merges), t);
        json_decref(json);
    }
    json_t *odd = json_pack("{s:s, s:s}", "type", "Whitespace", "x", "y");
    assert_null(pre_type_of_json(odd, false));
    assert_null(pre_type_of_json(NULL, false));
    json_decref(odd);
    assert_null(pre_type_of("brand-new"));
}

// --- refusals by key
static void put_llama(gguf_builder *b, const char *without) {
    static const struct {
        const char *key;
        uint32_t x;
    } numbers[] = {{"llama.block_count", 1}, {"llama.context_length", 64},
            {"llama.embedding_length", 8}, {"llama.feed_forward_length", 8},
            {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].key, without) != 0) gguf_put_u32(b, numbers[i].key, numbers[i].x);
    if (strcmp(without, "llama.attention.layer_norm_rms_epsilon") != 0)
        gguf_put_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static void meta_says(gguf_builder *b, const char *says) {
    const int64_t dim[2] = {8, 16};
    arena *a = arena_new("meta");
    str file = {0};
    gguf_file f;
    llama_meta m;
    gguf_put_tensor(b, "token_embd.weight", QUANT_F32, dim, 2);
    gguf_builder_header(b, &file);
    str_reserve(&file, 512);
    memset(file.p + file.n, 0, 512);
    OK(gguf_parse(a, "x.gguf", file.p, file.n + 512, &f));
    if (says)
        FAILS(llama_meta_read(a, &f, &m), DRV_E_DATA, says);
    else
        OK(llama_meta_read(a, &f, &m));
    gguf_builder_free(b);
    str_free(&file);
    arena_free(a);
}

TEST(what_is_no_llama) {
    static const struct {
        const char *arch, *without, *key; // a key that is missing; one that is added
        double x;
        const char *says;
    } cases[] = {
            {"llama", "", NULL, 0, NULL},
            {"gemma2", "", NULL, 0, "general.architecture is \"gemma2\", which is not read"},
            {"qwen2moe", "", NULL, 0, "expected \"llama\" or \"qwen2\" or \"qwen3\""},
            {"llama", "llama.block_count", NULL, 0, "llama.block_count is missing"},
            {"llama", "llama.context_length", NULL, 0, "llama.context_length is missing"},
            {"llama", "llama.attention.layer_norm_rms_epsilon", NULL, 0, "epsilon is missing"},
            {"llama", "", "llama.expert_count", 8, "a mixture of experts"},
            {"llama", "", "llama.expert_count", 0, NULL},
            {"llama", "", "llama.attention.sliding_window", 32, NULL},
            {"llama", "", "llama.attention.sliding_window", 65,
                    "is 65, expected at most the context, 64"},
            {"llama", "", "llama.attention.sliding_window", 64, NULL},
            {"llama", "", "llama.logit_scale", 2, "scaled logits"},
            {"llama", "", "llama.rope.dimension_count", 2, "expected 4, the width of a head"},
            {"llama", "", "llama.attention.key_length", 3, "a head is 3 wide"},
            {"llama", "", "llama.vocab_size", 17, "but token_embd.weight has 16 rows"},
            {"llama", "", "split.count", 3, "one of 3 parts"},
            {"llama", "llama.attention.head_count_kv", "llama.attention.head_count_kv", 3,
                    "expected a divisor"},
            {"llama", "llama.block_count", "llama.block_count", 1e9, "expected 1 to 4096"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_builder b = {0};
        gguf_put_text(&b, "general.architecture", cases[i].arch);
        put_llama(&b, cases[i].without);
        if (cases[i].key) gguf_put_u32(&b, cases[i].key, (uint32_t)cases[i].x);
        meta_says(&b, cases[i].says);
    }
}

TEST(rotary_scaling_of_other_kinds) {
    static const struct {
        const char *type;
        float factor;
        const char *says;
    } cases[] = {{"none", 4, NULL}, {"linear", 1, NULL}, {"linear", 4, "\"linear\" with factor 4"},
            {"yarn", 1, "\"yarn\" with factor 1, expected none"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_builder b = {0};
        gguf_put_text(&b, "general.architecture", "llama");
        put_llama(&b, "");
        gguf_put_text(&b, "llama.rope.scaling.type", cases[i].type);
        gguf_put_f32(&b, "llama.rope.scaling.factor", cases[i].factor);
        meta_says(&b, cases[i].says);
    }
}

// --- vocabularies
TEST(tokens_that_are_no_list) {
    gguf_builder b = {0};
    gguf_put_text(&b, "general.architecture", "llama");
    put_llama(&b, "");
    gguf_put_text(&b, "tokenizer.ggml.tokens", "a\nb");
    meta_says(&b, "\"tokenizer.ggml.tokens\" is text, expected an array of texts");
}

// Messages go to a file while `n` tokens are read for the 16 rows; returns them.
static const char *said_of_tokens(arena *a, int n, const char *refusal) {
    const char *path = path_join(a, temporary_dir(a), "log.txt");
    char *text;
    gguf_builder b = {0};
    gguf_put_text(&b, "general.architecture", "llama");
    put_llama(&b, "");
    gguf_put_array(&b, "tokenizer.ggml.tokens", GGUF_TEXT, (uint64_t)n);
    for (int i = 0; i < n; i++)
        gguf_add_text(&b, "a", 1);
    OK(log_open_file(path));
    log_to_file_only(true);
    meta_says(&b, refusal);
    log_to_file_only(false);
    log_close_file();
    OK(file_read(a, path, &text, NULL));
    return text;
}

TEST(fewer_tokens_than_rows) {
    assert_null(strstr(said_of_tokens(a, 16, NULL), "the tokenizer has"));
    assert_non_null(strstr(said_of_tokens(a, 15, NULL),
            "the tokenizer has 15 tokens, token_embd.weight 16 rows: the last 1 rows have no token"));
    said_of_tokens(a, 17, "the tokenizer has 17 tokens, but token_embd.weight 16 rows");
}

static void merge_says(const char *merge, const char *says) {
    static const char *const tokens[] = {"a", "b", "ab", "xb", "ax"};
    arena *a = arena_new("merges");
    gguf_builder header = {0};
    str file = {0};
    gguf_file f;
    bpe_lists v;
    bool found;
    gguf_put_text(&header, "tokenizer.ggml.model", "gpt2");
    gguf_put_text(&header, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_array(&header, "tokenizer.ggml.tokens", GGUF_TEXT, 5);
    for (int k = 0; k < 5; k++)
        gguf_add_text(&header, tokens[k], strlen(tokens[k]));
    gguf_put_array(&header, "tokenizer.ggml.merges", GGUF_TEXT, 1);
    gguf_add_text(&header, merge, 3);
    gguf_builder_header(&header, &file);
    OK(gguf_parse(a, "x.gguf", file.p, file.n, &f));
    if (says)
        FAILS(vocabulary_read(a, &f, &v, &found), DRV_E_DATA, says);
    else
        OK(vocabulary_read(a, &f, &v, &found));
    gguf_builder_free(&header);
    str_free(&file);
    arena_free(a);
}

TEST(merges_of_what_is_no_token) {
    static const struct {
        const char *merge, *says;
    } cases[] = {{"a b", NULL}, {"b a", "merge 0 is \"b a\": its result is not a token"},
            {"x b", "its left side is not a token"}, {"a x", "its right side is not a token"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        merge_says(cases[i].merge, cases[i].says);
    }
}

// Markers typed as ordinary tokens are control tokens all the same, as in llama.cpp; so are those
// that a key names.
TEST(markers_without_their_type) {
    static const char *const texts[] = {"a", "b", "ab", "<|im_end|>", "<|start|>", "<tool>",
            "<|other|>"};
    static const int32_t types[] = {1, 1, 1, 1, 1, 4, 1};
    static const uint8_t want[] = {1, 1, 1, PIECE_CONTROL, PIECE_CONTROL, 4, 1};
    str bytes = {0};
    gguf_file file;
    bpe_lists v;
    bool found;
    gguf_builder header = {0};
    gguf_put_text(&header, "tokenizer.ggml.model", "gpt2");
    gguf_put_text(&header, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_array(&header, "tokenizer.ggml.tokens", GGUF_TEXT, 7);
    for (int i = 0; i < 7; i++)
        gguf_add_text(&header, texts[i], strlen(texts[i]));
    gguf_put_array(&header, "tokenizer.ggml.token_type", GGUF_I32, 7);
    str_add(&header.values, types, sizeof types);
    gguf_put_array(&header, "tokenizer.ggml.merges", GGUF_TEXT, 1);
    gguf_add_text(&header, "a b", 3);
    gguf_put_u32(&header, "tokenizer.ggml.eot_token_id", 4);
    gguf_builder_header(&header, &bytes);
    OK(gguf_parse(a, "x.gguf", bytes.p, bytes.n, &file));
    OK(vocabulary_read(a, &file, &v, &found));
    assert_memory_equal(v.types, want, sizeof want);
    str_free(&bytes);
    gguf_builder_free(&header);
}
