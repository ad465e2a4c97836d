// Makes tokenizer.json and tokenizer_config.json of a vocabulary. The large lists, vocabulary and
// merges, are written as text; a tree of them would take ten times their size.
#include <string.h>

#include "gguf/vocabulary.h"
#include "tok/model_file.h"

// Returns whether a token is the filler of a row of the embedding, named by its number.
static bool is_filler(const vocabulary *v, int64_t id) {
    char name[32];
    const int n = snprintf(name, sizeof name, "[PAD%lld]", (long long)id);
    return v->types[id] == TOKEN_UNUSED && v->tokens[id].n == (size_t)n &&
           memcmp(v->tokens[id].p, name, (size_t)n) == 0;
}

static bool is_special(const vocabulary *v, int64_t id) {
    return v->types[id] == TOKEN_CONTROL || v->types[id] == TOKEN_UNKNOWN;
}

static bool is_added(const vocabulary *v, int64_t id) {
    return is_special(v, id) || v->types[id] == TOKEN_USER_DEFINED;
}

static void add_json(str *out, json_t *value) {
    json_print_to(out, value, JSON_ENCODE_ANY | JSON_INDENT(2));
}

static json_t *token_text(const vocabulary *v, int64_t id) {
    return json_stringn(v->tokens[id].p, v->tokens[id].n);
}

// --- the lists
static bool has_flag(const vocabulary *v, int64_t id, token_flag flag) {
    return v->flags[id] & (int)flag;
}

static const char *json_word(const vocabulary *v, int64_t id, token_flag flag) {
    return has_flag(v, id, flag) ? "true" : "false";
}

static void add_flags(const vocabulary *v, int64_t id, str *out) {
    str_puts(out, "\"content\": ");
    str_add_json(out, v->tokens[id].p, v->tokens[id].n);
    str_printf(out,
            ", \"single_word\": %s, \"lstrip\": %s, \"rstrip\": %s, \"normalized\": %s, \"special\": %s}",
            json_word(v, id, TOKEN_SINGLE_WORD), json_word(v, id, TOKEN_LSTRIP),
            json_word(v, id, TOKEN_RSTRIP), json_word(v, id, TOKEN_NORMALIZED),
            is_special(v, id) ? "true" : "false");
}

static void add_added(const vocabulary *v, str *out) {
    const char *before = "\n    {";
    str_puts(out, "[");
    for (int64_t id = 0; id < v->n; id++) {
        if (!is_added(v, id)) continue;
        str_printf(out, "%s\"id\": %lld, ", before, (long long)id);
        add_flags(v, id, out);
        before = ",\n    {";
    }
    str_puts(out, "\n  ]");
}

static void add_vocab(const vocabulary *v, str *out) {
    const char *before = "\n      ";
    str_puts(out, "{");
    for (int64_t id = 0; id < v->n; id++) {
        if (is_filler(v, id)) continue;
        str_puts(out, before);
        str_add_json(out, v->tokens[id].p, v->tokens[id].n);
        str_printf(out, ": %lld", (long long)id);
        before = ",\n      ";
    }
    str_puts(out, "\n    }");
}

// Writes pairs, or "LEFT RIGHT" as older readers expect if no part has a space.
static void add_merges(const vocabulary *vocab, str *out) {
    bool spaces = false;
    for (int64_t i = 0; i < vocab->n_merges; i++)
        for (int k = 0; k < 2; k++)
            spaces |= memchr(vocab->merges[i][k].p, ' ', vocab->merges[i][k].n) != NULL;
    str both = {0};
    str_puts(out, "[");
    for (int64_t i = 0; i < vocab->n_merges; i++) {
        const gguf_text left = vocab->merges[i][0], right = vocab->merges[i][1];
        str_puts(out, i ? ",\n      " : "\n      ");
        if (spaces) {
            str_puts(out, "[");
            str_add_json(out, left.p, left.n);
            str_puts(out, ", ");
            str_add_json(out, right.p, right.n);
            str_puts(out, "]");
        } else {
            str_clear(&both);
            str_add(&both, left.p, left.n);
            str_puts(&both, " ");
            str_add(&both, right.p, right.n);
            str_add_json(out, both.p, both.n);
        }
    }
    str_puts(out, "\n    ]");
    str_free(&both);
}

static void add_model(const vocabulary *v, str *out) {
    bool bytes = false;
    for (int64_t id = 0; id < v->n; id++)
        bytes |= v->types[id] == TOKEN_BYTE;
    str_puts(out, "{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ");
    if (v->sentencepiece && v->unk >= 0)
        str_add_json(out, v->tokens[v->unk].p, v->tokens[v->unk].n);
    else
        str_puts(out, "null");
    str_printf(out,
            ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    "
            "\"fuse_unk\": %s,\n    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n    "
            "\"vocab\": ",
            v->sentencepiece ? "true" : "false", v->sentencepiece && bytes ? "true" : "false",
            v->pre && v->pre->ignore_merges ? "true" : "false");
    add_vocab(v, out);
    str_puts(out, ",\n    \"merges\": ");
    add_merges(v, out);
    str_puts(out, "\n  }");
}

// --- the settings
// Returns Llama 2's normalizer: a space in front of each part between special tokens.
static json_t *normalizer(const vocabulary *v) {
    return v->sentencepiece ? model_file_normalizer(v->space_prefix) : json_null();
}

static json_t *decoder(const vocabulary *v) {
    if (!v->sentencepiece)
        return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1,
                "trim_offsets", 1, "use_regex", 1);
    return model_file_decoder(v->space_prefix);
}

static json_t *special_part(const vocabulary *v, int64_t id, int type) {
    return json_pack("{s:{s:o, s:i}}", "SpecialToken", "id", token_text(v, id), "type_id", type);
}

static void add_sequence(const vocabulary *v, const char *name, int type, json_t *list) {
    if (v->add_bos && v->bos >= 0) json_array_append_new(list, special_part(v, v->bos, type));
    json_array_append_new(list,
            json_pack("{s:{s:s, s:i}}", "Sequence", "id", name, "type_id", type));
    if (v->add_eos && v->eos >= 0) json_array_append_new(list, special_part(v, v->eos, type));
}

// Returns what puts BOS and EOS around a text.
static json_t *post_processor(const vocabulary *v) {
    json_t *single = json_array(), *pair = json_array(), *specials = json_object();
    const int64_t ids[] = {v->add_bos ? v->bos : -1, v->add_eos ? v->eos : -1};
    bool any = false;
    for (int i = 0; i < 2; i++) {
        if (ids[i] < 0) continue;
        any = true;
        json_object_setn_new(specials, v->tokens[ids[i]].p, v->tokens[ids[i]].n,
                json_pack("{s:o, s:[I], s:[o]}", "id", token_text(v, ids[i]), "ids",
                        (json_int_t)ids[i], "tokens", token_text(v, ids[i])));
    }
    add_sequence(v, "A", 0, single);
    add_sequence(v, "A", 0, pair);
    add_sequence(v, "B", 1, pair);
    json_t *template = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single",
            single, "pair", pair, "special_tokens", specials);
    if (any) return template;
    json_decref(template);
    return json_null();
}

void vocabulary_tokenizer_json(const vocabulary *v, str *out) {
    str_puts(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  "
                  "\"added_tokens\": ");
    add_added(v, out);
    str_puts(out, ",\n  \"normalizer\": ");
    add_json(out, normalizer(v));
    str_puts(out, ",\n  \"pre_tokenizer\": ");
    add_json(out, v->sentencepiece ? json_null() : pre_type_json(v->pre));
    str_puts(out, ",\n  \"post_processor\": ");
    add_json(out, post_processor(v));
    str_puts(out, ",\n  \"decoder\": ");
    add_json(out, decoder(v));
    str_puts(out, ",\n  \"model\": ");
    add_model(v, out);
    str_puts(out, "\n}\n");
}

// --- tokenizer_config.json
static json_t *chat_json(const vocabulary *v) {
    if (v->n_chat == 1 && strcmp(v->chat[0].name, "default") == 0)
        return json_string(v->chat[0].text);
    json_t *list = json_array();
    for (int i = 0; i < v->n_chat; i++)
        json_array_append_new(list,
                json_pack("{s:s, s:s}", "name", v->chat[i].name, "template", v->chat[i].text));
    return list;
}

static json_t *added_json(const vocabulary *v) {
    json_t *all = json_object();
    for (int64_t id = 0; id < v->n; id++) {
        char key[32];
        if (!is_added(v, id)) continue;
        snprintf(key, sizeof key, "%lld", (long long)id);
        json_object_set_new(all, key,
                json_pack("{s:o, s:b, s:b, s:b, s:b, s:b}", "content", token_text(v, id), "lstrip",
                        has_flag(v, id, TOKEN_LSTRIP), "normalized",
                        has_flag(v, id, TOKEN_NORMALIZED), "rstrip", has_flag(v, id, TOKEN_RSTRIP),
                        "single_word", has_flag(v, id, TOKEN_SINGLE_WORD), "special",
                        is_special(v, id)));
    }
    return all;
}

void vocabulary_config_json(const vocabulary *v, str *out) {
    const struct {
        const char *key;
        int64_t id;
    } roles[] = {{"bos_token", v->bos}, {"eos_token", v->eos}, {"unk_token", v->unk},
            {"pad_token", v->pad}};
    json_t *o = json_pack("{s:s, s:b, s:b, s:b, s:o, s:I}", "tokenizer_class",
            "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0, "add_bos_token",
            v->add_bos && v->bos >= 0, "add_eos_token", v->add_eos && v->eos >= 0,
            "added_tokens_decoder", added_json(v), "model_max_length", (json_int_t)v->context);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].id >= 0) json_object_set_new(o, roles[i].key, token_text(v, roles[i].id));
    if (v->n_chat) json_object_set_new(o, "chat_template", chat_json(v));
    add_json(out, o);
    str_puts(out, "\n");
}
