// Converts a model file to tokenizer.json and tokenizer_config.json, as transformers does.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tok/model_file.h"
#include "tok/piece_bpe.h"
#include "tok/piece_model.h"
#include "tok/rank_file.h"
#include "tok/score_merges.h"
#include "tok/tokenizer_internal.h"

// --- what both have
// Returns the merges; with `types`, only those that make normal pieces.
static json_t *merges_json(arena *a, const str_view *tokens, const float *scores,
        const uint8_t *types, int64_t n_tokens) {
    json_t *merges = json_array();
    score_merge *list;
    int64_t n;
    score_merges(a, tokens, scores, n_tokens, &list, &n);
    for (int64_t i = 0; i < n; i++) {
        const str_view left = tokens[list[i].left], right = tokens[list[i].right];
        if (types && types[list[i].whole] != PIECE_NORMAL) continue;
        json_array_append_new(merges,
                json_pack("[o, o]", json_stringn(left.p, left.n), json_stringn(right.p, right.n)));
    }
    return merges;
}

// Returns the post-processor that puts BOS in front of a text. Takes over `bos`; NULL: none.
static json_t *post_processor(json_t *bos, int32_t id) {
    if (!bos) return json_null();
    json_t *specials = json_object();
    json_object_set_new(specials, json_string_value(bos),
            json_pack("{s:O, s:[i], s:[O]}", "id", bos, "ids", id, "tokens", bos));
    json_t *processor =
            json_pack("{s:s, s:[{s:{s:O, s:i}}, {s:{s:s, s:i}}], s:[{s:{s:O, s:i}}, {s:{s:s, s:i}}, {s:{s:O, "
                      "s:i}}, {s:{s:s, s:i}}], s:o}",
                    "type", "TemplateProcessing", "single", "SpecialToken", "id", bos, "type_id", 0,
                    "Sequence", "id", "A", "type_id", 0, "pair", "SpecialToken", "id", bos,
                    "type_id", 0, "Sequence", "id", "A", "type_id", 0, "SpecialToken", "id", bos,
                    "type_id", 1, "Sequence", "id", "B", "type_id", 1, "special_tokens", specials);
    json_decref(bos);
    return processor;
}

// Returns tokenizer_config.json. Takes over the references to the texts; NULL: no such token.
static json_t *config_json(json_t *bos, json_t *eos, json_t *pad, json_t *unknown) {
    json_t *const texts[] = {bos, eos, pad, unknown};
    static const char *const keys[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    json_t *config = json_pack("{s:s, s:b, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces", 0, "add_bos_token", bos != NULL, "add_eos_token", 0);
    for (int i = 0; i < 4; i++)
        if (texts[i]) json_object_set_new(config, keys[i], texts[i]);
    return config;
}

// --- sentencepiece
// Returns why tokenizer.json cannot give the same ids as the model; NULL: it can.
static const char *reason_against(arena *a, const piece_model *m) {
    bool has_user_defined = false, has_unused = false;
    for (int32_t id = 0; id < m->n; id++) {
        has_user_defined |= m->types[id] == PIECE_USER_DEFINED;
        has_unused |= m->types[id] == PIECE_UNUSED;
    }
    if (m->is_unigram)
        return "a unigram model, whose scores tokenizers adds up in double precision and sentencepiece in single";
    if (m->charsmap.n) return "rules that normalise texts, which tokenizers applies in another way";
    if (m->removes_spaces) return "that spaces at the ends and between words are removed";
    if (!m->escapes_spaces) return "that spaces stay spaces";
    if (m->dummy_prefix && m->space_is_last) return "that a space is put behind a text";
    if (m->dummy_prefix && has_user_defined)
        return "a space in front of the text alone where user-defined pieces part it";
    if (has_unused) return "unused pieces";
    return piece_bpe_is_needed(a, m)
                   ? "characters that are no pieces of a text but merged into some"
                   : NULL;
}

static bool is_special(const piece_model *m, int32_t id) {
    return m->types[id] == PIECE_CONTROL || m->types[id] == PIECE_UNKNOWN;
}

static json_t *piece_text(const piece_model *m, int32_t id) {
    return json_stringn(m->pieces[id].p, m->pieces[id].n);
}

static json_t *added_tokens(const piece_model *m) {
    json_t *list = json_array();
    for (int32_t id = 0; id < m->n; id++)
        if (is_special(m, id) || m->types[id] == PIECE_USER_DEFINED)
            json_array_append_new(list,
                    json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id", id, "content",
                            piece_text(m, id), "single_word", 0, "lstrip", 0, "rstrip", 0,
                            "normalized", !is_special(m, id), "special", is_special(m, id)));
    return list;
}

static json_t *pieces_vocab(const piece_model *m) {
    json_t *vocab = json_object();
    for (int32_t id = 0; id < m->n; id++)
        json_object_setn_new(vocab, m->pieces[id].p, m->pieces[id].n, json_integer(id));
    return vocab;
}

json_t *model_file_normalizer(bool prefixed) {
    json_t *list = json_array();
    if (prefixed)
        json_array_append_new(list,
                json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE_MARK));
    json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern",
                                        "String", " ", "content", SPACE_MARK));
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
}

json_t *model_file_decoder(bool prefixed) {
    json_t *list = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern",
            "String", SPACE_MARK, "content", " ", "type", "ByteFallback", "type", "Fuse");
    if (prefixed)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content",
                                            " ", "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

static json_t *pieces_tokenizer(arena *a, const piece_model *m) {
    json_t *merges = merges_json(a, m->pieces, m->scores, m->types, m->n);
    json_t *model = json_pack("{s:s, s:o, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "unk_token",
            piece_text(m, m->unknown), "fuse_unk", 1, "byte_fallback", m->byte_fallback,
            "ignore_merges", 0, "vocab", pieces_vocab(m), "merges", merges);
    json_t *bos = m->bos >= 0 ? piece_text(m, m->bos) : NULL;
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:n, s:o, s:o, s:o}", "version", "1.0",
            "truncation", "padding", "added_tokens", added_tokens(m), "normalizer",
            model_file_normalizer(m->dummy_prefix), "pre_tokenizer", "post_processor",
            post_processor(bos, m->bos), "decoder", model_file_decoder(m->dummy_prefix), "model",
            model);
}

static json_t *role_text(const piece_model *m, int32_t id) { // NULL: none
    return id >= 0 ? piece_text(m, id) : NULL;
}

static json_t *pieces_config(const piece_model *m) {
    return config_json(role_text(m, m->bos), role_text(m, m->eos), role_text(m, m->pad),
            role_text(m, m->unknown));
}

// --- tiktoken
static json_t *rank_words(const rank_file *ranks) {
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b, s:b}]}", "type",
            "Sequence", "pretokenizers", "type", "Split", "pattern", "Regex",
            ranks->family->pattern, "behavior", "Isolated", "invert", 0, "type", "ByteLevel",
            "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0);
}

static json_t *ranks_tokenizer(arena *a, const rank_file *ranks, json_t *specials) {
    const rank_family *family = ranks->family;
    json_t *vocab = json_object();
    for (int64_t i = 0; i < ranks->n; i++)
        json_object_setn_new(vocab, ranks->tokens[i].p, ranks->tokens[i].n,
                json_integer(ranks->ids[i]));
    json_t *model = json_pack("{s:s, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "unk_token",
            "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 1, "vocab", vocab, "merges",
            merges_json(a, ranks->tokens, ranks->scores, NULL, ranks->n));
    json_t *bos = family->bos ? json_string(family->bos) : NULL;
    return json_pack("{s:s, s:n, s:n, s:O, s:o, s:o, s:o, s:o, s:o}", "version", "1.0",
            "truncation", "padding", "added_tokens", specials, "normalizer",
            family->nfc ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
            rank_words(ranks), "post_processor", post_processor(bos, ranks->n_ids), "decoder",
            json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1,
                    "trim_offsets", 1, "use_regex", 1),
            "model", model);
}

static json_t *optional_text(const char *text) {
    return text ? json_string(text) : NULL;
}

static json_t *ranks_config(const rank_family *family) {
    return config_json(optional_text(family->bos), optional_text(family->eos),
            optional_text(family->pad), NULL);
}

// Returns whether ids have gaps: tokenizers always numbers special tokens on from the vocabulary.
static bool has_gaps(const rank_file *ranks, const json_t *specials) {
    size_t i;
    json_t *token;
    bool gaps = ranks->n != ranks->n_ids;
    json_array_foreach(specials, i, token) gaps |=
            json_integer_value(json_object_get(token, "id")) != ranks->n_ids + (json_int_t)i;
    return gaps;
}

// --- files
static drv_status write_json(const char *path, json_t *value) {
    char *text = json_dumps(value, JSON_INDENT(1));
    json_decref(value);
    DRV_ASSERT(text, "a tokenizer could not be written as JSON");
    const drv_status status = file_write_atomic(path, text, strlen(text));
    free(text);
    return status;
}

// Writes both files; takes over the references to both values.
static drv_status write_both(arena *a, const char *folder, json_t *settings, json_t *config) {
    drv_status status = dir_make(folder);
    if (status == DRV_OK)
        status = write_json(path_join(a, folder, "tokenizer.json"), json_incref(settings));
    if (status == DRV_OK)
        status = write_json(path_join(a, folder, "tokenizer_config.json"), json_incref(config));
    json_decref(settings);
    json_decref(config);
    return status;
}

static drv_status refuse(const char *path, const char *reason) {
    return drv_fail(DRV_E_DATA,
            "%s: tokenizer.json cannot express it: %s; use the file itself as the tokenizer", path,
            reason);
}

static drv_status convert_pieces(arena *a, const char *path, const file_map *file,
        const char *folder) {
    piece_model model;
    DRV_TRY(piece_model_read(a, path, file->p, file->n, &model));
    const char *reason = reason_against(a, &model);
    if (reason) return refuse(path, reason);
    return write_both(a, folder, pieces_tokenizer(a, &model), pieces_config(&model));
}

static drv_status convert_ranks(arena *a, const char *path, const file_map *file,
        const char *folder) {
    rank_file ranks;
    DRV_TRY(rank_file_read(a, path, file->p, file->n, &ranks));
    json_t *specials = rank_file_specials(&ranks);
    const drv_status status =
            has_gaps(&ranks, specials)
                    ? refuse(path, "special tokens whose ids do not follow the last rank")
                    : write_both(a, folder, ranks_tokenizer(a, &ranks, specials),
                              ranks_config(ranks.family));
    json_decref(specials);
    return status;
}

drv_status model_file_convert(const char *path, const char *folder) {
    arena *a = arena_new("model file");
    file_map file;
    const char *found = file_is_dir(path) ? model_file_in(a, path) : path;
    drv_status status =
            found ? file_map_open(found, &file)
                  : drv_fail(DRV_E_IO,
                            "\"%s\" has no tokenizer.model, and no file that ends in .tiktoken",
                            path);
    if (status == DRV_OK) {
        status = rank_file_is(file.p, file.n) ? convert_ranks(a, found, &file, folder)
                                              : convert_pieces(a, found, &file, folder);
        file_map_close(&file);
    }
    arena_free(a);
    return status;
}
