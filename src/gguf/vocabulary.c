// Reads the tokenizer from a GGUF file's metadata. Defaults are those of llama.cpp
// (llama-vocab.cpp); merges are derived from scores as in transformers.
#include "gguf/vocabulary.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/json.h"
#include "gguf/llama_meta.h"
#include "gguf/pre_types.h"
#include "tok/score_merges.h"

enum { MAX_TOKENS = 1 << 24, MAX_CHAT_TEMPLATES = 16 };

#define KEY(name) "tokenizer.ggml." name

static drv_status read_words(const gguf_file *f, const char *pre, bpe_lists *v) {
    if (!pre) log_warn("%s: tokenizer.ggml.pre is missing; GPT-2's is assumed", f->path);
    const pre_type *type = pre_type_of(pre ? pre : "default");
    if (!type)
        return drv_fail(DRV_E_DATA,
                "%s: tokenizer.ggml.pre is \"%.40s\", an unknown pre-tokenizer; expected one of %s",
                f->path, pre, pre_type_names());
    v->words = type->words;
    v->ignore_merges = type->ignore_merges;
    v->add_bos = type->add_bos;
    return DRV_OK;
}

static drv_status read_kind(arena *a, const gguf_file *f, bpe_lists *v, bool *found) {
    const char *model = NULL, *pre = NULL;
    DRV_TRY(gguf_get_text(a, f, KEY("model"), &model));
    DRV_TRY(gguf_get_text(a, f, KEY("pre"), &pre));
    *found = model && strcmp(model, "none") != 0 && strcmp(model, "no_vocab") != 0;
    if (!*found) return DRV_OK;
    v->sentencepiece = v->add_bos = strcmp(model, "llama") == 0;
    if (v->sentencepiece) return DRV_OK;
    if (strcmp(model, "gpt2") == 0) return read_words(f, pre, v);
    return drv_fail(DRV_E_DATA,
            "%s: tokenizer.ggml.model is \"%.40s\", which is not read; expected \"gpt2\" "
            "(byte-level BPE) or \"llama\" (sentencepiece)",
            f->path, model);
}

// --- tokens
static drv_status check_count(const gguf_file *f, const char *key, int64_t n, int64_t expected) {
    if (n == expected) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: %s has %lld entries, expected one per token, %lld", f->path,
            key, (long long)n, (long long)expected);
}

static drv_status read_types(arena *a, const gguf_file *f, bpe_lists *v) {
    int32_t *types = NULL;
    int64_t n;
    DRV_TRY(gguf_get_i32s(a, f, KEY("token_type"), &types, &n));
    if (gguf_find(f, KEY("token_type"))) DRV_TRY(check_count(f, KEY("token_type"), n, v->n));
    v->types = ARENA_ARRAY(a, uint8_t, v->n);
    for (int64_t i = 0; i < v->n; i++)
        v->types[i] = types && types[i] >= PIECE_NORMAL && types[i] <= PIECE_BYTE
                              ? (uint8_t)types[i]
                              : PIECE_NORMAL;
    return DRV_OK;
}

static drv_status read_tokens(arena *a, const gguf_file *f, bpe_lists *v) {
    gguf_text *tokens;
    DRV_TRY(gguf_get_texts(a, f, KEY("tokens"), &tokens, &v->n));
    v->tokens = tokens;
    if (v->n < 1 || v->n > MAX_TOKENS)
        return drv_fail(DRV_E_DATA, "%s: tokenizer.ggml.tokens has %lld tokens, expected 1 to %d",
                f->path, (long long)v->n, MAX_TOKENS);
    token_index index;
    token_index_build(a, v->tokens, v->n, &index);
    for (int64_t i = 0; i < v->n; i++) {
        const int32_t first = token_index_find(&index, v->tokens[i].p, v->tokens[i].n);
        if (first != i)
            return drv_fail(DRV_E_DATA, "%s: tokens %d and %lld are the same text \"%.*s\"",
                    f->path, first, (long long)i, (int)(v->tokens[i].n < 60 ? v->tokens[i].n : 60),
                    v->tokens[i].p);
    }
    return read_types(a, f, v);
}

static drv_status read_flags(arena *a, const gguf_file *f, bpe_lists *v) {
    const char *text = NULL;
    json_t *list = NULL, *token;
    size_t i;
    v->flags = ARENA_ARRAY(a, uint8_t, v->n);
    DRV_TRY(gguf_get_text(a, f, GGUF_TOKEN_FLAGS, &text));
    if (!text) return DRV_OK;
    DRV_TRY(json_read_bytes(arena_printf(a, "%s: " GGUF_TOKEN_FLAGS, f->path), text, strlen(text),
            &list));
    json_array_foreach(list, i, token) {
        const json_t *id = json_object_get(token, "id");
        const int64_t at = json_is_integer(id) ? json_integer_value(id) : -1;
        for (int k = 0; k < N_TOKEN_FLAGS && at >= 0 && at < v->n; k++)
            if (json_is_true(json_object_get(token, token_flag_names[k])))
                v->flags[at] |= (uint8_t)(1 << k);
    }
    json_decref(list);
    return DRV_OK;
}

// Reads the special tokens, which are special even in a file without types.
static drv_status read_specials(const gguf_file *f, bpe_lists *v) {
    const struct {
        const char *key;
        int64_t *id;
    } ids[] = {{KEY("bos_token_id"), &v->bos}, {KEY("eos_token_id"), &v->eos},
            {KEY("unknown_token_id"), &v->unk}, {KEY("padding_token_id"), &v->pad}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        DRV_TRY(llama_meta_token(f, ids[i].key, v->n, ids[i].id));
        const int64_t id = *ids[i].id;
        if (id >= 0 && !gguf_find(f, KEY("token_type"))) v->types[id] = PIECE_CONTROL;
    }
    for (int64_t i = 0; v->sentencepiece && v->unk < 0 && i < v->n; i++)
        if (v->types[i] == PIECE_UNKNOWN) v->unk = i;
    DRV_TRY(gguf_get_bool(f, KEY("add_bos_token"), &v->add_bos));
    DRV_TRY(gguf_get_bool(f, KEY("add_eos_token"), &v->add_eos));
    v->space_prefix = true;
    DRV_TRY(gguf_get_bool(f, KEY("add_space_prefix"), &v->space_prefix));
    return DRV_OK;
}

// Texts that llama.cpp treats as control tokens whatever their type (llama-vocab.cpp): ends of
// texts, turns and messages, and markers for filling in code.
static const char *const control_texts[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>",
        "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>",
        "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>",
        "<eos>", "<turn|>", "<|tool_response>",
        "<\xEF\xBD\x9C"
        "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
        "[e~[", "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<PRE>", "\xE2\x96\x81<PRE>",
        "<|code_prefix|>", "<|prefix|>",
        "<\xEF\xBD\x9C"
        "fim\xE2\x96\x81"
        "begin\xEF\xBD\x9C>",
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<SUF>", "\xE2\x96\x81<SUF>",
        "<|code_suffix|>", "<|suffix|>",
        "<\xEF\xBD\x9C"
        "fim\xE2\x96\x81hole\xEF\xBD\x9C>",
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<MID>", "\xE2\x96\x81<MID>",
        "<|code_middle|>", "<|middle|>",
        "<\xEF\xBD\x9C"
        "fim\xE2\x96\x81"
        "end\xEF\xBD\x9C>",
        "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>",
        "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"};

static bool is_control_text(const gguf_text *token) {
    size_t i = 0;
    const size_t n = sizeof control_texts / sizeof *control_texts;
    while (i < n && (strlen(control_texts[i]) != token->n ||
                            memcmp(control_texts[i], token->p, token->n) != 0))
        i++;
    return i < n;
}

// Makes control tokens of markers that a converter left as normal tokens, to which no text would be
// encoded: those of llama.cpp's list, and those that a key of the file names.
static drv_status mark_controls(const gguf_file *f, bpe_lists *v) {
    int64_t ids[] = {v->bos, v->eos, -1, -1}, first = -1;
    int n_marked = 0;
    DRV_TRY(llama_meta_token(f, KEY("eot_token_id"), v->n, &ids[2]));
    DRV_TRY(llama_meta_token(f, KEY("eom_token_id"), v->n, &ids[3]));
    for (int64_t i = 0; i < v->n; i++) {
        bool named = is_control_text(&v->tokens[i]);
        for (size_t k = 0; k < sizeof ids / sizeof *ids; k++)
            named |= ids[k] == i && v->tokens[i].n > 1 && strchr("<[", v->tokens[i].p[0]);
        if (!named || (v->types[i] != PIECE_NORMAL && v->types[i] != PIECE_USER_DEFINED)) continue;
        v->types[i] = PIECE_CONTROL;
        if (n_marked++ == 0) first = i;
    }
    if (n_marked > 0 && gguf_find(f, KEY("token_type")))
        log_warn("%s: token %lld \"%.*s\" and %d more are not control tokens by their type; they are taken for control tokens, "
                 "as llama.cpp takes them",
                f->path, (long long)first, (int)v->tokens[first].n, v->tokens[first].p,
                n_marked - 1);
    return DRV_OK;
}

// --- merges
// Finds both sides of a merge, and checks that they and their result are tokens, as readers of
// tokenizer.json require. `n_left`: bytes before the space.
static drv_status find_merge(const gguf_file *f, const token_index *index, int64_t i,
        gguf_text line, size_t n_left, int32_t merge[2]) {
    str whole = {0};
    const char *right = line.p + n_left + 1;
    const size_t n_right = line.n - n_left - 1;
    str_add(&whole, line.p, n_left);
    str_add(&whole, right, n_right);
    const char *missing = NULL;
    merge[0] = token_index_find(index, line.p, n_left);
    merge[1] = token_index_find(index, right, n_right);
    if (merge[0] < 0) missing = "its left side";
    if (merge[1] < 0) missing = "its right side";
    if (token_index_find(index, whole.p, whole.n) < 0) missing = "its result";
    str_free(&whole);
    if (!missing) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: merge %lld is \"%.*s\": %s is not a token of tokenizer.ggml.tokens", f->path,
            (long long)i, (int)(line.n < 60 ? line.n : 60), line.p, missing);
}

// Reads merges as "LEFT RIGHT", where the space is never the first byte.
static drv_status list_merges(arena *a, const gguf_file *f, bpe_lists *v) {
    gguf_text *lines;
    DRV_TRY(gguf_get_texts(a, f, KEY("merges"), &lines, &v->n_merges));
    token_index index;
    token_index_build(a, v->tokens, v->n, &index);
    v->merges = arena_alloc(a, sizeof *v->merges * (size_t)(v->n_merges + 1));
    for (int64_t i = 0; i < v->n_merges; i++) {
        const gguf_text line = lines[i];
        const char *space = line.n > 1 ? memchr(line.p + 1, ' ', line.n - 1) : NULL;
        if (!space || space + 1 == line.p + line.n)
            return drv_fail(DRV_E_DATA,
                    "%s: merge %lld is \"%.*s\", expected two tokens with a space between", f->path,
                    (long long)i, (int)(line.n < 60 ? line.n : 60), line.p);
        DRV_TRY(find_merge(f, &index, i, line, (size_t)(space - line.p), v->merges[i]));
    }
    return DRV_OK;
}

static drv_status merges_of_scores(arena *a, const gguf_file *f, bpe_lists *v) {
    float *scores;
    int64_t n;
    DRV_TRY(gguf_get_f32s(a, f, KEY("scores"), &scores, &n));
    DRV_TRY(check_count(f, KEY("scores"), n, v->n));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(scores[i]))
            return drv_fail(DRV_E_DATA, "%s: the score of token %lld is %f, expected a number",
                    f->path, (long long)i, (double)scores[i]);
    bpe_lists_merge_by(a, v, scores, false);
    return DRV_OK;
}

static drv_status read_merges(arena *a, const gguf_file *f, bpe_lists *v) {
    if (gguf_find(f, KEY("merges"))) return list_merges(a, f, v);
    if (v->sentencepiece && gguf_find(f, KEY("scores"))) return merges_of_scores(a, f, v);
    return drv_fail(DRV_E_DATA, "%s: the tokenizer has no %s", f->path,
            v->sentencepiece ? "tokenizer.ggml.scores" : "tokenizer.ggml.merges");
}

// --- chat templates
static drv_status add_chat(arena *a, const gguf_file *f, const char *key, const char *name,
        chat_text *list, int *n) {
    const char *text = NULL;
    DRV_TRY(gguf_get_text(a, f, key, &text));
    if (!text) return DRV_OK;
    if (*n == MAX_CHAT_TEMPLATES)
        return drv_fail(DRV_E_DATA, "%s: has more than %d chat templates", f->path,
                MAX_CHAT_TEMPLATES);
    list[(*n)++] = (chat_text){name, text};
    return DRV_OK;
}

static drv_status read_chat(arena *a, const gguf_file *f, bpe_lists *v) {
    static const char prefix[] = "tokenizer.chat_template.";
    chat_text *list = ARENA_ARRAY(a, chat_text, MAX_CHAT_TEMPLATES);
    v->chat = list;
    DRV_TRY(add_chat(a, f, "tokenizer.chat_template", "default", list, &v->n_chat));
    for (int i = 0; i < f->n_values; i++)
        if (str_starts(f->values[i].key, prefix))
            DRV_TRY(add_chat(a, f, f->values[i].key, f->values[i].key + sizeof prefix - 1, list,
                    &v->n_chat));
    return DRV_OK;
}

drv_status vocabulary_read(arena *a, const gguf_file *f, bpe_lists *out, bool *found) {
    bpe_lists v = {0};
    DRV_TRY(read_kind(a, f, &v, found));
    if (!*found) return DRV_OK;
    DRV_TRY(read_tokens(a, f, &v));
    DRV_TRY(read_specials(f, &v));
    DRV_TRY(mark_controls(f, &v));
    DRV_TRY(read_flags(a, f, &v));
    DRV_TRY(read_merges(a, f, &v));
    DRV_TRY(read_chat(a, f, &v));
    *out = v;
    return DRV_OK;
}
