// Loads the unigram model of tokenizer.json: a list of pieces with scores, in the order of ids.
#include <math.h>

#include "tok/loader.h"

static const double UNKNOWN_PENALTY = 10; // as in tokenizers

static drv_status take_piece(const loader *load, const json_t *entry, size_t i, str_view *piece,
        double *score) {
    const json_t *text = json_array_get(entry, 0), *number = json_array_get(entry, 1);
    if (json_array_size(entry) != 2 || !json_is_string(text) || !json_is_number(number))
        return drv_fail(DRV_E_DATA,
                "%s: entry %zu of model.vocab is not a text and its score, as a unigram model has "
                "them",
                load->path, i);
    const size_t n = json_string_length(text);
    *piece = (str_view){arena_strndup(load->a, json_string_value(text), n), n};
    *score = json_number_value(number);
    return DRV_OK;
}

static drv_status read_pieces(const loader *load, const json_t *list, unigram_pieces *out) {
    const size_t n_pieces = json_array_size(list);
    size_t i;
    json_t *entry;
    str_view *pieces = ARENA_ARRAY(load->a, str_view, n_pieces + 1);
    double *scores = ARENA_ARRAY(load->a, double, n_pieces + 1), least = (double)INFINITY;
    bool *found = ARENA_ARRAY(load->a, bool, n_pieces + 1);
    if (n_pieces == 0 || n_pieces > 1 << 24)
        return drv_fail(DRV_E_DATA,
                "%s: model.vocab of a unigram model has %zu pieces, expected 1 to 16777216",
                load->path, n_pieces);
    json_array_foreach(list, i, entry) {
        DRV_TRY(take_piece(load, entry, i, &pieces[i], &scores[i]));
        found[i] = true;
        if (scores[i] < least) least = scores[i];
    }
    *out = (unigram_pieces){.pieces = pieces,
            .found = found,
            .scores = scores,
            .n = (int32_t)n_pieces,
            .unknown_score = least - UNKNOWN_PENALTY,
            .escapes_spaces = load->t->space_mark,
            .of_tokenizers = true};
    return DRV_OK;
}

// Reads the unknown id. Without it Hugging Face fails at unknown characters; the file is refused.
static drv_status read_unknown(const loader *load, const json_t *model, unigram_pieces *pieces) {
    const json_t *id = json_object_get(model, "unk_id");
    const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    pieces->unknown = (int32_t)value;
    if (value >= 0 && value < pieces->n) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: model.unk_id is missing or not the id of a piece, expected 0 to %d", load->path,
            pieces->n - 1);
}

drv_status load_unigram(loader *load, const json_t *model) {
    tokenizer *tok = load->t;
    unigram_pieces pieces;
    json_t *list = NULL;
    str vocab = {0}, merges = {0};
    const bool falls_back = json_is_true(json_object_get(model, "byte_fallback"));
    if (tok->byte_level) return loader_refuse(load, "beside ByteLevel, model", "Unigram");
    if (!load->vocab.p) return loader_refuse(load, "without vocab, model", "Unigram");
    DRV_TRY(json_read_bytes(load->path, load->vocab.p, (size_t)(load->vocab.end - load->vocab.p),
            &list));
    drv_status status = read_pieces(load, list, &pieces);
    json_decref(list);
    if (status == DRV_OK) status = read_unknown(load, model, &pieces);
    DRV_TRY(status);
    if (falls_back) pieces.byte_id = tok->fallback_id;
    tok->unigram = unigram_make(load->a, &pieces);
    loader_write_vocabulary(pieces.pieces, NULL, pieces.n, &vocab);
    str_puts(&merges, "[]");
    status = loader_read_vocabulary(load, &vocab, &merges, falls_back);
    str_free(&vocab);
    str_free(&merges);
    tok->unknown = pieces.unknown;
    tok->fuse_unknown = true;
    return status;
}
