// Which tokens of a pair a row has, and what each is to the pair.
#include "data/set/pair_rows.h"

#include <string.h>

#include "base/pair_word.h"
#include "data/sft/sft.h"

enum { CHOSEN, REJECTED, N_SIDES };

// Tokens [first, first + n) of each document as inputs; the labels are those after them.
typedef struct pair_span {
    int64_t first[N_SIDES], n[N_SIDES];
} pair_span;

static pair_span whole_pair(const row_source *src, int64_t pair) {
    pair_span x;
    for (int side = 0; side < N_SIDES; side++) {
        x.first[side] = dataset_document_start(src->set, N_SIDES * pair + side);
        const int64_t end = dataset_document_start(src->set, N_SIDES * pair + side + 1);
        x.n[side] = end > x.first[side] ? end - x.first[side] - 1 : 0;
    }
    return x;
}

// The shorter document keeps what it has, up to half of the row.
static pair_span cut_pair(pair_span x, int64_t row_tokens) {
    const int shorter = x.n[CHOSEN] <= x.n[REJECTED] ? CHOSEN : REJECTED;
    if (x.n[CHOSEN] + x.n[REJECTED] <= row_tokens) return x;
    if (x.n[shorter] > row_tokens / 2) x.n[shorter] = row_tokens / 2;
    x.n[!shorter] = row_tokens - x.n[shorter];
    return x;
}

static drv_status any_counts(const row_source *src, int64_t first, int64_t n, bool *out) {
    *out = false;
    if (n > 0) DRV_TRY(dataset_read_roles(src->set, first + 1, n, src->scratch.roles));
    for (int64_t i = 0; i < n; i++)
        *out |= src->scratch.roles[i] == ROLE_LAST_ANSWER;
    return DRV_OK;
}

static drv_status add_pair(row_source *src, int64_t pair, piece_list *list) {
    const pair_span whole = whole_pair(src, pair), x = cut_pair(whole, src->opts->row_tokens);
    const bool longer = x.n[CHOSEN] + x.n[REJECTED] < whole.n[CHOSEN] + whole.n[REJECTED];
    bool counts[N_SIDES];
    src->count.examples++;
    src->count.longer += longer;
    if (longer && src->opts->drop_long) {
        src->count.dropped++;
        return DRV_OK;
    }
    for (int side = 0; side < N_SIDES; side++)
        DRV_TRY(any_counts(src, x.first[side], x.n[side], &counts[side]));
    if (!counts[CHOSEN] || !counts[REJECTED]) {
        src->count.unanswered++;
        return DRV_OK;
    }
    MEM_GROW(list->p, list->n, list->cap);
    list->p[list->n++] =
            (row_piece){.first = x.first[CHOSEN], .n = (int32_t)(x.n[CHOSEN] + x.n[REJECTED])};
    return DRV_OK;
}

drv_status pair_pieces(row_source *src, piece_list *list) {
    for (int64_t pair = dataset_document_of(src->set, src->begin) / N_SIDES;
            pair < src->set->about.pairs &&
            dataset_document_start(src->set, N_SIDES * pair) < src->end;
            pair++)
        DRV_TRY(add_pair(src, pair, list));
    dataset_forget(src->set);
    return DRV_OK;
}

// --- one row
// The n inputs of a response's document, from token `at` of the row on.
static drv_status put_document(const row_source *src, int64_t first, int64_t n, int64_t at,
        const row_out *out) {
    DRV_TRY(dataset_read(src->set, first, n + 1, src->opts->n_vocab, src->scratch.tokens));
    DRV_TRY(dataset_read_roles(src->set, first + 1, n, src->scratch.roles));
    memcpy(out->tokens + at, src->scratch.tokens, sizeof *out->tokens * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        out->position[at + i] = (int32_t)i;
        out->labels[at + i] =
                src->scratch.roles[i] == ROLE_LAST_ANSWER ? src->scratch.tokens[i + 1] : -1;
    }
    return DRV_OK;
}

// Marks what the tokens of a document are to pair `k` of the row, of this number.
static void mark_document(const row_source *src, int64_t k, int64_t number, int side, int64_t at,
        int64_t n, const row_out *out) {
    const double *references = *src->references;
    bool head = true;
    for (int64_t i = at; i < at + n; i++) {
        if (out->labels[i] < 0) continue;
        out->pair[i] = pair_word(k, side == REJECTED, head);
        if (head && references)
            memcpy(out->reference + 2 * i, &references[N_SIDES * number + side],
                    sizeof *references);
        head = false;
    }
}

drv_status pair_row(const row_source *src, int64_t row, const row_out *out, int64_t *there) {
    const int64_t first_piece = src->pack.row[row], row_tokens = src->opts->row_tokens;
    *there = 0;
    for (int64_t i = 0; out->pair && i < row_tokens; i++)
        out->pair[i] = PAIR_NONE;
    if (out->pair) memset(out->reference, 0, 2 * sizeof *out->reference * (size_t)row_tokens);
    for (int64_t k = first_piece; k < src->pack.row[row + 1]; k++) {
        const int64_t pair = dataset_document_of(src->set, src->pack.pieces[k].first) / N_SIDES,
                      number = src->first_pair + pair;
        const pair_span x = cut_pair(whole_pair(src, pair), row_tokens);
        for (int side = 0; side < N_SIDES; side++) {
            DRV_TRY(put_document(src, x.first[side], x.n[side], *there, out));
            if (out->pair)
                mark_document(src, k - first_piece, number, side, *there, x.n[side], out);
            *there += x.n[side];
        }
        if (out->pair) out->number[k - first_piece] = number;
    }
    if (out->pair) *out->pairs += src->pack.row[row + 1] - first_piece;
    return DRV_OK;
}
