// Converts a model file to tokenizer.json and tokenizer_config.json, as transformers does.
#include <string.h>

#include "base/file.h"
#include "tok/bpe_files.h"
#include "tok/model_file.h"
#include "tok/piece_bpe.h"
#include "tok/piece_model.h"
#include "tok/rank_file.h"

static drv_status refuse(const char *path, const char *reason) {
    return drv_fail(DRV_E_DATA,
            "%s: tokenizer.json cannot express it: %s; use the file itself as the tokenizer", path,
            reason);
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
        return "a unigram model, whose scores tokenizers adds in double precision and sentencepiece in single";
    if (m->charsmap.n) return "normalisation rules, which tokenizers applies differently";
    if (m->removes_spaces) return "the removal of spaces at the ends and between words";
    if (!m->escapes_spaces) return "spaces that are not replaced by U+2581";
    if (m->dummy_prefix && m->space_is_last) return "a space after each text";
    if (m->dummy_prefix && has_user_defined)
        return "a space in front of the text, but not of its parts between user-defined pieces";
    if (has_unused) return "unused pieces";
    return piece_bpe_is_needed(a, m) ? "pieces with characters that are not pieces" : NULL;
}

static drv_status convert_pieces(arena *a, const char *path, str_view file, const char *folder) {
    piece_model model;
    DRV_TRY(piece_model_read(a, path, file.p, file.n, &model));
    const char *reason = reason_against(a, &model);
    if (reason) return refuse(path, reason);
    bpe_lists lists = {.sentencepiece = true,
            .space_prefix = model.dummy_prefix,
            .tokens = model.pieces,
            .types = model.types,
            .flags = ARENA_ARRAY(a, uint8_t, model.n),
            .n = model.n,
            .bos = model.bos,
            .eos = model.eos,
            .unk = model.unknown,
            .pad = model.pad,
            .add_bos = true};
    for (int32_t id = 0; id < model.n; id++)
        if (model.types[id] == PIECE_USER_DEFINED) lists.flags[id] = TOKEN_NORMALIZED;
    bpe_lists_merge_by(a, &lists, model.scores, true);
    return bpe_files_write(&lists, folder);
}

// --- tiktoken
static int64_t find_token(const bpe_lists *lists, const char *text) {
    int64_t id = text ? lists->n - 1 : -1;
    while (id >= 0 && (lists->tokens[id].n != strlen(text) ||
                              memcmp(lists->tokens[id].p, text, lists->tokens[id].n) != 0))
        id--;
    return id;
}

// Lists the ranks, and after them the special tokens.
static drv_status list_ranks(arena *a, const char *path, const rank_file *ranks,
        const json_t *specials, bpe_lists *out) {
    const rank_family *family = ranks->family;
    const int64_t n_tokens = ranks->n + (int64_t)json_array_size(specials);
    str_view *tokens = ARENA_ARRAY(a, str_view, n_tokens);
    *out = (bpe_lists){.nfc = family->nfc,
            .ignore_merges = true,
            .words = {.pattern = family->pattern},
            .tokens = tokens,
            .types = ARENA_ARRAY(a, uint8_t, n_tokens),
            .n = ranks->n,
            .unk = -1,
            .add_bos = true};
    memcpy(tokens, ranks->tokens, sizeof *tokens * (size_t)ranks->n);
    memset(out->types, PIECE_NORMAL, (size_t)ranks->n);
    bpe_lists_merge_by(a, out, ranks->scores, false);
    size_t i;
    json_t *token;
    json_array_foreach(specials, i, token) {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (json_integer_value(json_object_get(token, "id")) != out->n || ranks->n != ranks->n_ids)
            return refuse(path, "special tokens whose ids do not follow the last rank");
        tokens[out->n] = (str_view){text, strlen(text)};
        out->types[out->n++] = PIECE_CONTROL;
    }
    out->bos = find_token(out, family->bos);
    out->eos = find_token(out, family->eos);
    out->pad = find_token(out, family->pad);
    return DRV_OK;
}

static drv_status convert_ranks(arena *a, const char *path, str_view file, const char *folder) {
    rank_file ranks;
    bpe_lists lists;
    DRV_TRY(rank_file_read(a, path, file.p, file.n, &ranks));
    json_t *specials = rank_file_specials(&ranks);
    drv_status status = list_ranks(a, path, &ranks, specials, &lists);
    if (status == DRV_OK) status = bpe_files_write(&lists, folder);
    json_decref(specials);
    return status;
}

drv_status model_file_convert(const char *path, const char *folder) {
    arena *a = arena_new("model file");
    char *bytes;
    size_t n;
    const char *found = file_is_dir(path) ? model_file_in(a, path) : path;
    drv_status status =
            found ? file_read(a, found, &bytes, &n)
                  : drv_fail(DRV_E_IO,
                            "\"%s\" has no tokenizer.model, and no file that ends in .tiktoken",
                            path);
    if (status == DRV_OK)
        status = (rank_file_is(bytes, n) ? convert_ranks : convert_pieces)(a, found,
                (str_view){bytes, n}, folder);
    arena_free(a);
    return status;
}
