// Chooses the tokens of a pair that a row contains, and writes the role of each.
#include "data/set/pair_rows.h"

#include <stdlib.h>
#include <string.h>

#include "ir/pair_word.h"
#include "data/set/pair_marks.h"
#include "data/sft/sft.h"

enum { CHOSEN, REJECTED, N_SIDES };

// Tokens [first, first + n) of each document as inputs; the labels are those after them. The first
// `shared` of both are alike and predict nothing that counts: a row has them once.
typedef struct pair_span {
    int64_t first[N_SIDES], n[N_SIDES], shared;
} pair_span;

static int64_t tokens_of(const pair_span *x) {
    return x->n[CHOSEN] + x->n[REJECTED] - x->shared;
}

static pair_span whole_pair(const row_source *src, int64_t pair) {
    pair_span x = {.shared = 0};
    for (int side = 0; side < N_SIDES; side++) {
        x.first[side] = dataset_document_start(src->set, N_SIDES * pair + side);
        const int64_t end = dataset_document_start(src->set, N_SIDES * pair + side + 1);
        x.n[side] = end > x.first[side] ? end - x.first[side] - 1 : 0;
    }
    return x;
}

static int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// The tokens with which both documents begin and that predict nothing of a response, no more than a
// row has.
static int64_t shared_of(const pair_span *x, const pair_mark *mark, int64_t row_tokens) {
    int64_t n = min_of(mark->apart, row_tokens);
    for (int side = 0; side < N_SIDES; side++)
        n = min_of(n, min_of(x->n[side], mark->answer[side]));
    return n;
}

// Equal responses have equal log-probabilities, so there is nothing to learn from them.
// The last label, which follows the inputs, counts too.
static bool are_alike(const pair_span *x, const pair_mark *mark) {
    return x->n[CHOSEN] == x->n[REJECTED] && mark->apart > x->n[CHOSEN];
}

// The shorter document keeps up to half of the row's room for both. Where both are longer than
// that, they have it alike: with a token more of one of them, responses that begin alike would
// differ by where they were cut.
static pair_span cut_pair(pair_span x, int64_t row_tokens) {
    const int shorter = x.n[CHOSEN] <= x.n[REJECTED] ? CHOSEN : REJECTED;
    const int64_t half = (row_tokens - x.shared) / 2; // of what is not shared
    if (tokens_of(&x) <= row_tokens) return x;
    if (x.n[shorter] - x.shared > half)
        x.n[CHOSEN] = x.n[REJECTED] = x.shared + half;
    else
        x.n[!shorter] = row_tokens + x.shared - x.n[shorter];
    return x;
}

static void add_pair(row_source *src, int64_t pair, const pair_mark *mark, piece_list *list) {
    pair_span whole = whole_pair(src, pair);
    whole.shared = shared_of(&whole, mark, src->opts->row_tokens);
    const pair_span cut = cut_pair(whole, src->opts->row_tokens);
    const bool longer = tokens_of(&cut) < tokens_of(&whole),
               counts = mark->answer[CHOSEN] < cut.n[CHOSEN] &&
                        mark->answer[REJECTED] < cut.n[REJECTED],
               alike = counts && are_alike(&cut, mark), drop = longer && src->opts->drop_long;
    src->count.examples++;
    src->count.longer += longer;
    src->count.dropped += drop;
    src->count.unanswered += !drop && !counts;
    src->count.alike += !drop && alike;
    if (drop || !counts || alike) return;
    src->count.shared += cut.shared;
    MEM_GROW(list->p, list->n, list->cap);
    list->p[list->n++] = (row_piece){.first = cut.first[CHOSEN],
            .n = (int32_t)tokens_of(&cut),
            .skip = (int32_t)cut.shared};
}

drv_status pair_pieces(row_source *src, piece_list *list) {
    const dataset *set = src->set;
    const int64_t first = dataset_document_of(set, src->begin) / N_SIDES;
    int64_t end = first;
    while (end < set->about.pairs && dataset_document_start(set, N_SIDES * end) < src->end)
        end++;
    pair_mark *marks = mem_alloc(sizeof *marks * (size_t)(end - first + 1));
    const drv_status status = pair_marks_read(set, first, end - first, marks);
    for (int64_t pair = first; status == DRV_OK && pair < end; pair++)
        add_pair(src, pair, &marks[pair - first], list);
    free(marks);
    dataset_forget(set);
    return status;
}

// --- one row
// Inputs [from, end) of a document that begins at token `first` of the set, from token `at` of the
// row on; none of them sees tokens [fork, at) of the row.
static drv_status put_tokens(const row_source *src, int64_t first, int64_t from, int64_t end,
        int64_t at, int64_t fork, const row_out *out) {
    const int64_t n = end - from;
    DRV_TRY(dataset_read(src->set, first + from, n + 1, src->opts->n_vocab, src->scratch.tokens));
    DRV_TRY(dataset_read_roles(src->set, first + from + 1, n, src->scratch.roles));
    memcpy(out->tokens + at, src->scratch.tokens, sizeof *out->tokens * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        out->position[at + i] = (int32_t)(from + i);
        out->labels[at + i] =
                src->scratch.roles[i] == ROLE_LAST_ANSWER ? src->scratch.tokens[i + 1] : -1;
        if (!out->pair) continue;
        out->hidden[2 * (at + i)] = (int32_t)fork;
        out->hidden[2 * (at + i) + 1] = (int32_t)at;
    }
    return DRV_OK;
}

// Writes the roles of a document's tokens in pair `k` of the row, which has this number.
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

// Pair `k` of the row, from token *there on.
static drv_status put_pair(const row_source *src, const row_piece *piece, int64_t k,
        const row_out *out, int64_t *there) {
    const int64_t pair = dataset_document_of(src->set, piece->first) / N_SIDES,
                  number = src->first_pair + pair, fork = *there + piece->skip;
    pair_span whole = whole_pair(src, pair);
    whole.shared = piece->skip;
    const pair_span x = cut_pair(whole, src->opts->row_tokens);
    DRV_TRY(put_tokens(src, x.first[CHOSEN], 0, x.shared, *there, *there, out));
    *there = fork;
    for (int side = 0; side < N_SIDES; side++) {
        const int64_t n = x.n[side] - x.shared;
        DRV_TRY(put_tokens(src, x.first[side], x.shared, x.n[side], *there, fork, out));
        if (out->pair) mark_document(src, k, number, side, *there, n, out);
        *there += n;
    }
    if (out->pair) out->number[k] = number;
    return DRV_OK;
}

drv_status pair_row(const row_source *src, int64_t row, const row_out *out, int64_t *there) {
    const int64_t first = src->pack.row[row], end = src->pack.row[row + 1],
                  row_tokens = src->opts->row_tokens;
    *there = 0;
    for (int64_t i = 0; out->pair && i < row_tokens; i++) {
        out->pair[i] = PAIR_NONE;
        out->reference[2 * i] = out->reference[2 * i + 1] = 0;
        out->hidden[2 * i] = out->hidden[2 * i + 1] = 0;
    }
    for (int64_t k = first; k < end; k++)
        DRV_TRY(put_pair(src, &src->pack.pieces[k], k - first, out, there));
    if (out->pair) *out->pairs += end - first;
    return DRV_OK;
}
