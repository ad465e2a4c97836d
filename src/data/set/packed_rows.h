// Whole pieces of a data set packed into rows of T tokens: examples of fine-tuning, documents and
// windows of an evaluation. A function of the lengths alone.
#pragma once
#include "data/set/dataset.h"

// Tokens [first, first + n) as inputs of a row, and as labels those after them: all but the first
// `skip`, which are context. The last token of a document is only predicted, so a document of T + 1
// tokens fits a row.
typedef struct row_piece {
    int64_t first;
    int32_t n, skip;
} row_piece;

typedef struct piece_list {
    row_piece *p;
    int64_t n, cap;
} piece_list;

// Lists the windows over tokens [begin, end) as lm-evaluation-harness's loglikelihood_rolling takes
// them: each token but the first is predicted once; a window predicts `stride` more tokens (1 to
// row_tokens) than the one before and has as much context in front of them as a row holds. What
// fits a row is one piece.
void piece_windows(piece_list *list, int64_t begin, int64_t end, int64_t row_tokens,
        int64_t stride);

typedef struct packed_rows {  // single owner, packing_free
    row_piece *pieces;        // of the rows, one after the other; in a row in the order of the list
    int64_t *row;             // [n_rows + 1] the first piece of each
    int64_t n_rows, n_tokens; // inputs of all pieces
} packed_rows;

// Best fit, the longest first; rows in the order of their first pieces. No piece is longer than
// row_tokens.
void packing_make(const piece_list *list, int64_t row_tokens, packed_rows *out);
void packing_free(packed_rows *p);
