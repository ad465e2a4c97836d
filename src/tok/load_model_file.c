// Loads a model file. Its vocabulary and merges are read in the form of tokenizer.json.

#include "base/file.h"
#include "tok/loader.h"
#include "tok/model_file.h"
#include "tok/piece_model.h"
#include "tok/rank_file.h"
#include "tok/score_merges.h"

const char *model_file_in(arena *a, const char *folder) {
    const char *usual = path_join(a, folder, "tokenizer.model");
    char **names;
    int n = 0;
    if (file_exists(usual)) return usual;
    if (dir_list(a, folder, &names, &n) != DRV_OK) return NULL;
    for (int i = 0; i < n; i++)
        if (str_ends(names[i], ".model") || str_ends(names[i], ".tiktoken"))
            return path_join(a, folder, names[i]);
    return NULL;
}

const char *tokenizer_file_of(arena *a, const char *path) {
    const char *json = path_join(a, path, "tokenizer.json");
    if (!file_is_dir(path)) return path;
    return file_exists(json) ? json : model_file_in(a, path);
}

// --- vocabulary and merges, as tokenizer.json writes them
void loader_write_vocabulary(const str_view *tokens, const int32_t *ids, int64_t n, str *out) {
    str_puts(out, "{");
    for (int64_t i = 0; i < n; i++) {
        if (i) str_puts(out, ",");
        str_add_json(out, tokens[i].p, tokens[i].n);
        str_printf(out, ":%d", ids ? ids[i] : (int)i);
    }
    str_puts(out, "}");
}

// Writes the merges of a vocabulary. Tokens with the same score have the same rank, so that the
// leftmost of them is merged first.
static void put_merges(loader *load, const str_view *tokens, const float *scores,
        const uint8_t *types, int64_t n_tokens, str *out) {
    score_merge *list;
    int64_t n;
    score_merges(load->a, tokens, scores, types, n_tokens, &list, &n);
    int32_t *ranks = ARENA_ARRAY(load->a, int32_t, n + 1);
    str_puts(out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i) ranks[i] = ranks[i - 1] + (scores[list[i].whole] != scores[list[i - 1].whole]);
        str_puts(out, i ? ",[" : "[");
        str_add_json(out, tokens[list[i].left].p, tokens[list[i].left].n);
        str_puts(out, ",");
        str_add_json(out, tokens[list[i].right].p, tokens[list[i].right].n);
        str_puts(out, "]");
    }
    str_puts(out, "]");
    load->ranks = ranks;
}

drv_status loader_read_vocabulary(loader *load, const str *vocab, const str *merges,
        bool byte_fallback) {
    load->vocab = (json_cursor){.p = vocab->p, .end = vocab->p + vocab->n};
    load->merges = (json_cursor){.p = merges->p, .end = merges->p + merges->n};
    DRV_TRY(load_vocab(load));
    load_bytes(load, byte_fallback);
    return load_merges(load);
}

// Loads the added tokens `own`, which it frees, and those of the files beside the model file.
static drv_status load_tokens(loader *load, json_t *own) {
    json_t *beside = NULL, *none = json_array();
    drv_status status = load_beside(load, none, &beside);
    json_decref(none);
    if (status == DRV_OK) status = load_added(load, own, beside);
    json_decref(beside);
    json_decref(own);
    return status == DRV_OK ? load_roles(load) : status;
}

// Puts BOS in front of texts, unless the config beside the file says otherwise.
static void put_bos(const loader *load, int32_t bos) {
    tokenizer *t = load->t;
    if (bos >= 0 && !json_is_false(json_object_get(load->config, "add_bos_token")))
        t->before[t->n_before++] = bos;
}

static void set_role(tokenizer *t, token_role role, int32_t id) {
    if (id >= 0) t->role[role] = id;
}

// --- sentencepiece
static json_t *user_defined(const piece_model *m) { // a unigram model finds them itself
    json_t *list = json_array();
    for (int32_t id = 0; id < m->n && !m->is_unigram; id++)
        if (m->types[id] == PIECE_USER_DEFINED)
            json_array_append_new(list, json_pack("{s:i, s:s%, s:b}", "id", id, "content",
                                                m->pieces[id].p, m->pieces[id].n, "normalized", 1));
    return list;
}

static void load_settings(loader *load, const piece_model *m) {
    tokenizer *t = load->t;
    t->space_mark = m->escapes_spaces;
    t->prefix = m->dummy_prefix && !t->rules ? PREFIX_ALWAYS : PREFIX_NONE;
    t->strip_space = m->dummy_prefix && !m->space_is_last;
    t->decodes_bytes = true;
    load->fused = load->keeps_ids = true;
}

static void choose_model(loader *load, const piece_model *model) {
    tokenizer *tok = load->t;
    if (model->is_unigram) {
        unigram_pieces pieces;
        piece_model_unigram(load->a, model, &pieces);
        if (model->byte_fallback) pieces.byte_id = tok->fallback_id;
        tok->unigram = unigram_make(load->a, &pieces);
    } else if (piece_bpe_is_needed(load->a, model)) {
        tok->piece_bpe = piece_bpe_make(load->a, model, tok);
    }
}

static drv_status load_pieces(loader *load, const piece_model *model) {
    tokenizer *tok = load->t;
    str vocab = {0}, merges = {0};
    DRV_TRY(piece_rules_make(load->a, load->path, model, &tok->rules));
    choose_model(load, model);
    load_settings(load, model);
    loader_write_vocabulary(model->pieces, NULL, model->n, &vocab);
    const bool whole = tok->unigram || tok->piece_bpe; // texts are encoded without words
    if (whole)
        str_puts(&merges, "[]");
    else
        put_merges(load, model->pieces, model->scores, model->types, model->n, &merges);
    const drv_status status = loader_read_vocabulary(load, &vocab, &merges, model->byte_fallback);
    str_free(&vocab);
    str_free(&merges);
    DRV_TRY(status);
    tok->unknown = model->unknown;
    tok->fuse_unknown = true;
    tok->can_cut = !whole && !tok->rules;
    if (!whole) load_joins(load);
    tok->can_cut &= tok->n_rules > 0;
    DRV_TRY(load_tokens(load, user_defined(model)));
    put_bos(load, model->bos);
    for (int32_t id = 0; id < model->n; id++)
        tok->is_special[id] |=
                model->types[id] == PIECE_CONTROL || model->types[id] == PIECE_UNKNOWN;
    if (load->config || load->map) return DRV_OK;
    set_role(tok, ROLE_BOS, model->bos);
    set_role(tok, ROLE_EOS, model->eos);
    set_role(tok, ROLE_PAD, model->pad);
    return DRV_OK;
}

// --- tiktoken
static drv_status load_words(loader *load, const rank_family *family) {
    tokenizer *t = load->t;
    DRV_TRY(split_rule_for(load->path, family->pattern, &t->rule[0]));
    t->n_rules = 1;
    split_rule_speed_up(&t->rule[0]);
    t->can_cut = t->rule[0].kind != SPLIT_REGEX;
    return DRV_OK;
}

static drv_status load_ranks(loader *load, const rank_file *ranks) {
    tokenizer *tok = load->t;
    str vocab = {0}, merges = {0};
    tok->byte_level = tok->ignore_merges = load->fused = load->keeps_ids = true;
    tok->nfc = ranks->family->nfc;
    DRV_TRY(load_words(load, ranks->family));
    loader_write_vocabulary(ranks->tokens, ranks->ids, ranks->n, &vocab);
    put_merges(load, ranks->tokens, ranks->scores, NULL, ranks->n, &merges);
    const drv_status status = loader_read_vocabulary(load, &vocab, &merges, false);
    str_free(&vocab);
    str_free(&merges);
    DRV_TRY(status);
    for (int byte = 0; byte < 256; byte++)
        if (tok->byte_id[byte] < 0)
            return drv_fail(DRV_E_DATA, "%s: byte 0x%02X has no rank", load->path, (unsigned)byte);
    tok->unknown = -1;
    DRV_TRY(load_tokens(load, rank_file_specials(ranks)));
    const rank_family *family = ranks->family;
    const int32_t bos = family->bos ? tokenizer_id(tok, family->bos) : -1;
    put_bos(load, bos);
    if (load->config || load->map) return DRV_OK;
    set_role(tok, ROLE_BOS, bos);
    set_role(tok, ROLE_EOS, tokenizer_id(tok, family->eos));
    if (family->pad) set_role(tok, ROLE_PAD, tokenizer_id(tok, family->pad));
    return DRV_OK;
}

drv_status load_model_file(loader *load, const void *bytes, size_t n) {
    piece_model model;
    rank_file ranks;
    if (rank_file_is(bytes, n)) {
        DRV_TRY(rank_file_read(load->a, load->path, bytes, n, &ranks));
        return load_ranks(load, &ranks);
    }
    const char *copy = arena_strndup(load->a, bytes, n); // for the rules, which use it
    DRV_TRY(piece_model_read(load->a, load->path, copy, n, &model));
    return load_pieces(load, &model);
}
