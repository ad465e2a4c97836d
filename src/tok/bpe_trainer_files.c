// Writes a trained tokenizer: tokenizer.json (vocabulary, merges, pre-tokenizer, template) and the
// two files that say which special token is BOS, EOS, padding and unknown.
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tok/bpe_trainer_files.h"
#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

// Returns the symbols' texts in the alphabet of byte-level vocabularies.
static char **symbol_names(arena *a, const bpe_trainer_opts *o, const bpe_merges *m) {
    char **names = ARENA_ARRAY(a, char *, m->n_symbols);
    str name = {0};
    for (int64_t i = 0; i < m->n_symbols; i++) {
        const bpe_symbol *symbol = &m->symbols[i];
        str_clear(&name);
        for (size_t k = 0; k < symbol->n; k++) {
            unsigned char c[4];
            const int n = utf8_put(byte_char((unsigned char)m->text.p[symbol->at + k]), c);
            str_add(&name, c, (size_t)n);
        }
        names[i] = i < o->n_specials ? arena_strdup(a, o->specials[i])
                                     : arena_strndup(a, name.p, name.n);
    }
    str_free(&name);
    return names;
}

static json_t *token_json(const char *text) {
    return json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", text, "single_word", 0, "lstrip",
            0, "rstrip", 0, "normalized", 0, "special", 1);
}

static json_t *token_list(const bpe_trainer_opts *o) {
    json_t *list = json_array();
    for (int i = 0; i < o->n_specials; i++) {
        json_t *token = json_pack("{s:i}", "id", i), *rest = token_json(o->specials[i]);
        json_object_update(token, rest);
        json_decref(rest);
        json_array_append_new(list, token);
    }
    return list;
}

static json_t *byte_level(bool use_regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
            "trim_offsets", 1, "use_regex", use_regex);
}

static json_t *pre_tokenizer(const bpe_trainer_opts *o, split_kind split) {
    if (split == SPLIT_GPT2) return byte_level(true);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers",
            "type", "Split", "pattern", "Regex", o->pattern, "behavior", "Isolated", "invert", 0,
            byte_level(false));
}

static json_t *template_part(const char *kind, const char *id, int type) {
    return json_pack("{s:{s:s, s:i}}", kind, "id", id, "type_id", type);
}

// Returns the template that puts BOS before each text, as in Llama 3; null if it is not wanted.
static json_t *post_processor(const bpe_trainer_opts *o) {
    const char *bos = o->role[ROLE_BOS];
    if (!bos || !o->begin_with_bos) return json_null();
    const int id = str_index(bos, o->specials, o->n_specials);
    json_t *template = json_pack("{s:s, s:[o, o], s:[o, o, o, o], s:{s:{s:s, s:[i], s:[s]}}}",
            "type", "TemplateProcessing", "single", template_part("SpecialToken", bos, 0),
            template_part("Sequence", "A", 0), "pair", template_part("SpecialToken", bos, 0),
            template_part("Sequence", "A", 0), template_part("SpecialToken", bos, 1),
            template_part("Sequence", "B", 1), "special_tokens", bos, "id", bos, "ids", id,
            "tokens", bos);
    return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "processors", byte_level(true),
            template);
}

static json_t *model(char **names, const bpe_merges *m) {
    json_t *vocab = json_object(), *merges = json_array();
    for (int64_t i = 0; i < m->n_symbols; i++)
        json_object_set_new(vocab, names[i], json_integer(i));
    for (int64_t i = 0; i < m->n_merges; i++)
        json_array_append_new(merges,
                json_pack("[s,s]", names[m->merges[i][0]], names[m->merges[i][1]]));
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
            "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
            "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
}

static void set_roles(json_t *file, const bpe_trainer_opts *o) {
    for (token_role role = 0; role < N_TOKEN_ROLES; role++)
        if (o->role[role])
            json_object_set_new(file, token_role_key(role), json_string(o->role[role]));
}

static json_t *config(const bpe_trainer_opts *o) {
    json_t *tokens = json_object();
    for (int i = 0; i < o->n_specials; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        json_object_set_new(tokens, id, token_json(o->specials[i]));
    }
    json_t *file = json_pack("{s:s, s:b, s:o}", "tokenizer_class", "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces", 0, "added_tokens_decoder", tokens);
    set_roles(file, o);
    return file;
}

static drv_status write_json(arena *a, const char *dir, const char *name, json_t *file) {
    DRV_ASSERT(file, "%s could not be built", name);
    return json_write_file(path_join(a, dir, name), file);
}

drv_status bpe_trainer_write(const bpe_trainer_opts *o, split_kind split, const bpe_merges *m,
        const char *dir) {
    arena *a = arena_new("tokenizer files");
    json_t *root = json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0",
            "truncation", "padding", "added_tokens", token_list(o), "normalizer", "pre_tokenizer",
            pre_tokenizer(o, split), "post_processor", post_processor(o), "decoder",
            byte_level(true), "model", model(symbol_names(a, o, m), m));
    drv_status status = write_json(a, dir, "tokenizer.json", root);
    if (status == DRV_OK) status = write_json(a, dir, "tokenizer_config.json", config(o));
    json_t *map = json_object();
    set_roles(map, o);
    if (status == DRV_OK)
        status = write_json(a, dir, "special_tokens_map.json", map);
    else
        json_decref(map);
    arena_free(a);
    return status;
}
