// Divides a list of token ids into windows for a scorer. A window is a stem, which is context only,
// and continuations, each of which attends to the stem and not to the others. So a prefix that
// several texts share is computed once.
#pragma once
#include "data/set/packed_rows.h"

// A range ids[first, first + n) of inputs. In a continuation each id predicts the one after it, so
// ids[first + n] is only predicted.
typedef struct token_run {
    int64_t first;
    int32_t n;
} token_run;

typedef struct score_window {
    token_run stem;
    int64_t continuation;              // index in the list of its first continuation
    int32_t n_continuations, n_tokens; // n_tokens: inputs of stem and continuations
} score_window;

typedef struct window_list { // window_list_free
    score_window *p;
    int64_t n, cap;
    token_run *continuations;
    int64_t n_continuations, cap_continuations;
    int64_t longest, total; // inputs of the longest window, and of all windows
} window_list;

void window_add(window_list *list, token_run stem);
// Adds a continuation to the last window. Each window needs at least one.
void window_add_continuation(window_list *list, token_run continuation);
// Makes a window of each piece: its stem is the part that the piece skips.
window_list windows_of_pieces(const piece_list *pieces);
void window_list_free(window_list *list);

// A row that is being filled.
typedef struct window_row {
    int64_t at, row_tokens;
    int32_t *tokens, *position, *labels; // [row_tokens]; label -1: no loss
    int32_t *hidden; // [row_tokens, 2], see attention_args; NULL: no continuations
} window_row;
void window_put(const window_list *list, const score_window *w, const int32_t *ids,
        window_row *row);
// Fills the rest of the row with tokens without a loss.
void window_row_end(window_row *row);
// Copies the losses of a window's tokens in a row to losses[i] of the ids[i] that they predict;
// returns the number of the window's tokens in the row.
int64_t window_take(const window_list *list, const score_window *w, const double *of_row,
        double *losses);
