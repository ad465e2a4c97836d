// Cuts a list of token ids into windows, which a scorer reads. A window is a stem, which is context
// alone, and continuations, each of which continues the stem as if the others were not there; so
// what several texts begin with is computed once.
#pragma once
#include "data/set/packed_rows.h"

// ids[first, first + n) are read. Of a continuation each predicts the one after it, so that
// ids[first + n] is only predicted.
typedef struct token_run {
    int64_t first;
    int32_t n;
} token_run;

typedef struct score_window {
    token_run stem;
    int64_t continuation;              // the first of the list's
    int32_t n_continuations, n_tokens; // n_tokens: read, of stem and continuations
} score_window;

typedef struct window_list { // window_list_free
    score_window *p;
    int64_t n, cap;
    token_run *continuations;
    int64_t n_continuations, cap_continuations;
    int64_t longest, total; // tokens that are read: of a window, of all
} window_list;

void window_add(window_list *list, token_run stem);
// Adds to the last window; each gets at least one.
void window_add_continuation(window_list *list, token_run continuation);
// Windows as a document's pieces are: what a piece skips is its stem.
window_list windows_of_pieces(const piece_list *pieces);
void window_list_free(window_list *list);

// The tokens of a row, as it is filled.
typedef struct window_row {
    int64_t at, row_tokens;
    int32_t *tokens, *position, *labels; // [row_tokens]; label -1: nothing to predict
    int32_t *hidden; // [row_tokens, 2], see attention_args; NULL: no continuations
} window_row;
void window_put(const window_list *list, const score_window *w, const int32_t *ids,
        window_row *row);
// Fills what is left of the row with what predicts nothing.
void window_row_end(window_row *row);
// losses[i] of ids[i] from those of the tokens of a window in a row; returns how many these are.
int64_t window_take(const window_list *list, const score_window *w, const double *of_row,
        double *losses);
