// Makes the files of a tokenizer from its lists. Vocabulary and merges are written as text; a tree
// of them would take ten times their size.
#include "tok/bpe_files.h"

#include <string.h>

#include "base/file.h"
#include "tok/score_merges.h"
#include "tok/token_role.h"

#define SPACE_MARK "\xE2\x96\x81" // U+2581, which sentencepiece writes for a space

const char *const token_flag_names[] = {"lstrip", "rstrip", "single_word", "normalized"};

// Returns whether a token is the filler of a row of the embedding, named by its number.
static bool is_filler(const bpe_lists *l, int64_t id) {
    char name[32];
    const int n = snprintf(name, sizeof name, "[PAD%lld]", (long long)id);
    return l->types[id] == PIECE_UNUSED && l->tokens[id].n == (size_t)n &&
           memcmp(l->tokens[id].p, name, (size_t)n) == 0;
}

static bool is_special(const bpe_lists *l, int64_t id) {
    return l->types[id] == PIECE_CONTROL || l->types[id] == PIECE_UNKNOWN;
}

static bool is_added(const bpe_lists *l, int64_t id) {
    return is_special(l, id) || l->types[id] == PIECE_USER_DEFINED;
}

static void add_json(str *out, json_t *value) {
    json_print_to(out, value, JSON_ENCODE_ANY | JSON_INDENT(2));
}

void bpe_lists_merge_by(arena *a, bpe_lists *lists, const float *scores, bool normal) {
    score_merge *list;
    score_merges(a, lists->tokens, scores, normal ? lists->types : NULL, lists->n, &list,
            &lists->n_merges);
    lists->merges = arena_alloc(a, sizeof *lists->merges * (size_t)(lists->n_merges + 1));
    for (int64_t i = 0; i < lists->n_merges; i++) {
        lists->merges[i][0] = list[i].left;
        lists->merges[i][1] = list[i].right;
    }
}

static json_t *token_text(const bpe_lists *l, int64_t id) {
    return json_stringn(l->tokens[id].p, l->tokens[id].n);
}

static void add_text(const bpe_lists *l, int64_t id, str *out) {
    str_add_json(out, l->tokens[id].p, l->tokens[id].n);
}

// --- the lists
static json_t *added_token(const bpe_lists *l, int64_t id) {
    json_t *token = json_pack("{s:o}", "content", token_text(l, id));
    for (int k = 0; k < N_TOKEN_FLAGS; k++)
        json_object_set_new(token, token_flag_names[k],
                json_boolean(l->flags && l->flags[id] >> k & 1));
    json_object_set_new(token, "special", json_boolean(is_special(l, id)));
    return token;
}

// Lists the added tokens, as tokenizer.json does, or by their ids as tokenizer_config.json does.
static json_t *added_tokens(const bpe_lists *l, bool by_id) {
    json_t *all = by_id ? json_object() : json_array();
    for (int64_t id = 0; id < l->n; id++) {
        char key[32];
        if (!is_added(l, id)) continue;
        json_t *token = added_token(l, id);
        snprintf(key, sizeof key, "%lld", (long long)id);
        if (by_id) {
            json_object_set_new(all, key, token);
        } else {
            json_object_set_new(token, "id", json_integer(id));
            json_array_append_new(all, token);
        }
    }
    return all;
}

static void add_vocab(const bpe_lists *l, str *out) {
    const char *before = "\n      ";
    str_puts(out, "{");
    for (int64_t id = 0; id < l->n; id++) {
        if (is_filler(l, id)) continue;
        str_puts(out, before);
        add_text(l, id, out);
        str_printf(out, ": %lld", (long long)id);
        before = ",\n      ";
    }
    str_puts(out, "\n    }");
}

static void add_merges(const bpe_lists *l, str *out) {
    str_puts(out, "[");
    for (int64_t i = 0; i < l->n_merges; i++) {
        str_puts(out, i ? ",\n      [" : "\n      [");
        add_text(l, l->merges[i][0], out);
        str_puts(out, ", ");
        add_text(l, l->merges[i][1], out);
        str_puts(out, "]");
    }
    str_puts(out, "\n    ]");
}

static void add_model(const bpe_lists *l, str *out) {
    bool bytes = false;
    for (int64_t id = 0; id < l->n && l->sentencepiece; id++)
        bytes |= l->types[id] == PIECE_BYTE;
    str_puts(out, "{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ");
    if (l->sentencepiece && l->unk >= 0)
        add_text(l, l->unk, out);
    else
        str_puts(out, "null");
    str_printf(out,
            ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    "
            "\"fuse_unk\": %s,\n    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n    "
            "\"vocab\": ",
            l->sentencepiece ? "true" : "false", bytes ? "true" : "false",
            l->ignore_merges ? "true" : "false");
    add_vocab(l, out);
    str_puts(out, ",\n    \"merges\": ");
    add_merges(l, out);
    str_puts(out, "\n  }");
}

// --- the settings
static json_t *byte_level(bool use_regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
            "trim_offsets", 1, "use_regex", use_regex);
}

json_t *bpe_words_json(const bpe_words *words) {
    json_t *level = byte_level(!words->pattern);
    if (words->pattern)
        return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence",
                "pretokenizers", "type", "Split", "pattern", "Regex", words->pattern, "behavior",
                "Isolated", "invert", 0, level);
    if (!words->digits) return level;
    return json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type",
            "Digits", "individual_digits", 1, level);
}

// Returns the normalizer; that of sentencepiece is Llama 2's, which puts a space in front of each
// part between special tokens.
static json_t *normalizer(const bpe_lists *l) {
    if (!l->sentencepiece) return l->nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    json_t *list = json_array();
    if (l->space_prefix)
        json_array_append_new(list,
                json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE_MARK));
    json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern",
                                        "String", " ", "content", SPACE_MARK));
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
}

static json_t *decoder(const bpe_lists *l) {
    if (!l->sentencepiece) return byte_level(true);
    json_t *list = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern",
            "String", SPACE_MARK, "content", " ", "type", "ByteFallback", "type", "Fuse");
    if (l->space_prefix)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content",
                                            " ", "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

static void add_special(const bpe_lists *l, int64_t id, int type, json_t *list) {
    if (id >= 0)
        json_array_append_new(list, json_pack("{s:{s:o, s:i}}", "SpecialToken", "id",
                                            token_text(l, id), "type_id", type));
}

static json_t *sequence(const char *name, int type) {
    return json_pack("{s:{s:s, s:i}}", "Sequence", "id", name, "type_id", type);
}

// Returns what puts BOS and EOS around a text.
static json_t *post_processor(const bpe_lists *lists) {
    const int64_t ids[] = {lists->add_bos ? lists->bos : -1, lists->add_eos ? lists->eos : -1};
    json_t *single = json_array(), *pair = json_array(), *specials = json_object();
    for (int i = 0; i < 2; i++)
        if (ids[i] >= 0)
            json_object_setn_new(specials, lists->tokens[ids[i]].p, lists->tokens[ids[i]].n,
                    json_pack("{s:o, s:[I], s:[o]}", "id", token_text(lists, ids[i]), "ids",
                            (json_int_t)ids[i], "tokens", token_text(lists, ids[i])));
    for (int type = 0; type < 2; type++) {
        json_t *part = json_array();
        add_special(lists, ids[0], type, part);
        json_array_append_new(part, sequence(type ? "B" : "A", type));
        add_special(lists, ids[1], type, part);
        if (type == 0) json_array_extend(single, part);
        json_array_extend(pair, part);
        json_decref(part);
    }
    const bool any = json_object_size(specials) > 0;
    json_t *template = json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single",
            single, "pair", pair, "special_tokens", specials);
    if (any && lists->sentencepiece) return template;
    if (any)
        return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "processors", byte_level(true),
                template);
    json_decref(template);
    return json_null();
}

void bpe_tokenizer_json(const bpe_lists *lists, str *out) {
    const struct {
        const char *key;
        json_t *value;
    } settings[] = {{"added_tokens", added_tokens(lists, false)}, {"normalizer", normalizer(lists)},
            {"pre_tokenizer", lists->sentencepiece ? json_null() : bpe_words_json(&lists->words)},
            {"post_processor", post_processor(lists)}, {"decoder", decoder(lists)}};
    str_puts(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        str_printf(out, ",\n  \"%s\": ", settings[i].key);
        add_json(out, settings[i].value);
    }
    str_puts(out, ",\n  \"model\": ");
    add_model(lists, out);
    str_puts(out, "\n}\n");
}

// --- tokenizer_config.json
static json_t *chat_json(const bpe_lists *l) {
    if (l->n_chat == 1 && strcmp(l->chat[0].name, "default") == 0)
        return json_string(l->chat[0].text);
    json_t *list = json_array();
    for (int i = 0; i < l->n_chat; i++)
        json_array_append_new(list,
                json_pack("{s:s, s:s}", "name", l->chat[i].name, "template", l->chat[i].text));
    return list;
}

void bpe_config_json(const bpe_lists *lists, str *out) {
    const int64_t roles[N_TOKEN_ROLES] = {[ROLE_BOS] = lists->bos,
            [ROLE_EOS] = lists->eos,
            [ROLE_PAD] = lists->pad,
            [ROLE_UNK] = lists->unk};
    json_t *config = json_pack("{s:s, s:b, s:o}", "tokenizer_class", "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces", 0, "added_tokens_decoder", added_tokens(lists, true));
    if (lists->bos >= 0) json_object_set_new(config, "add_bos_token", json_boolean(lists->add_bos));
    if (lists->eos >= 0) json_object_set_new(config, "add_eos_token", json_boolean(lists->add_eos));
    if (lists->context)
        json_object_set_new(config, "model_max_length", json_integer(lists->context));
    for (token_role role = 0; role < N_TOKEN_ROLES; role++)
        if (roles[role] >= 0)
            json_object_set_new(config, token_role_key(role), token_text(lists, roles[role]));
    if (lists->n_chat) json_object_set_new(config, "chat_template", chat_json(lists));
    add_json(out, config);
    str_puts(out, "\n");
}

drv_status bpe_files_write(const bpe_lists *lists, const char *folder) {
    arena *a = arena_new("tokenizer files");
    str tokenizer = {0}, config = {0};
    bpe_tokenizer_json(lists, &tokenizer);
    bpe_config_json(lists, &config);
    drv_status status = dir_make(folder);
    if (status == DRV_OK)
        status =
                file_write_atomic(path_join(a, folder, "tokenizer.json"), tokenizer.p, tokenizer.n);
    if (status == DRV_OK)
        status = file_write_atomic(path_join(a, folder, "tokenizer_config.json"), config.p,
                config.n);
    str_free(&tokenizer);
    str_free(&config);
    arena_free(a);
    return status;
}
