// Puts windows with continuations into rows, and assigns the losses of a row to their tokens.
#include "infer/windows.h"

#include <stdlib.h>

void window_add(window_list *list, token_run stem) {
    MEM_GROW(list->p, list->n, list->cap);
    list->p[list->n++] =
            (score_window){.stem = stem, .continuation = list->n_continuations, .n_tokens = stem.n};
    list->total += stem.n;
}

void window_add_continuation(window_list *list, token_run continuation) {
    score_window *w = &list->p[list->n - 1];
    MEM_GROW(list->continuations, list->n_continuations, list->cap_continuations);
    list->continuations[list->n_continuations++] = continuation;
    w->n_continuations++;
    w->n_tokens += continuation.n;
    list->total += continuation.n;
    if (w->n_tokens > list->longest) list->longest = w->n_tokens;
}

window_list windows_of_pieces(const piece_list *pieces) {
    window_list list = {0};
    for (int64_t i = 0; i < pieces->n; i++) {
        const row_piece *piece = pieces->p + i;
        window_add(&list, (token_run){piece->first, piece->skip});
        window_add_continuation(&list,
                (token_run){piece->first + piece->skip, piece->n - piece->skip});
    }
    return list;
}

void window_list_free(window_list *list) {
    free(list->p);
    free(list->continuations);
    *list = (window_list){0};
}

static void put_token(window_row *row, int32_t id, int64_t position, int32_t label) {
    row->tokens[row->at] = id;
    row->position[row->at] = (int32_t)position;
    row->labels[row->at] = label;
    if (row->hidden) row->hidden[2 * row->at] = row->hidden[2 * row->at + 1] = 0;
    row->at++;
}

void window_put(const window_list *list, const score_window *w, const int32_t *ids,
        window_row *row) {
    for (int32_t i = 0; i < w->stem.n; i++)
        put_token(row, ids[w->stem.first + i], i, -1);
    const int64_t fork = row->at;
    for (int32_t k = 0; k < w->n_continuations; k++) {
        const token_run *continuation = &list->continuations[w->continuation + k];
        const int64_t begin = row->at;
        for (int32_t i = 0; i < continuation->n; i++) {
            put_token(row, ids[continuation->first + i], w->stem.n + i,
                    ids[continuation->first + i + 1]);
            if (!row->hidden) continue;
            row->hidden[2 * (begin + i)] = (int32_t)fork;
            row->hidden[2 * (begin + i) + 1] = (int32_t)begin;
        }
    }
}

void window_row_end(window_row *row) {
    for (int64_t i = 0; row->at < row->row_tokens; i++)
        put_token(row, 0, i, -1);
}

int64_t window_take(const window_list *list, const score_window *w, const double *of_row,
        double *losses) {
    int64_t at = w->stem.n;
    for (int32_t k = 0; k < w->n_continuations; k++) {
        const token_run *continuation = &list->continuations[w->continuation + k];
        for (int32_t i = 0; i < continuation->n; i++)
            losses[continuation->first + i + 1] = of_row[at++];
    }
    return at;
}
