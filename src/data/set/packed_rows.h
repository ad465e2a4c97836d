// Packs whole pieces of a data set into rows of T tokens: examples of fine-tuning, or documents and
// windows of an evaluation. The packing depends only on the lengths.
#pragma once
#include "data/set/dataset.h"

// A piece has tokens [first, first + n) as inputs and the tokens after them as labels. The first
// `skip` inputs are context without a loss. The last token of a document is a label only, so a
// document of T + 1 tokens fits in a row.
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
// row_tokens) than the one before and has as much context in front of them as a row holds. A text
// that fits in a row is one piece.
void piece_windows(piece_list *list, int64_t begin, int64_t end, int64_t row_tokens,
        int64_t stride);

typedef struct packed_rows { // single owner, packing_free
    row_piece *pieces; // the pieces of all rows, concatenated; within a row in the order of the list
    int64_t *row;      // [n_rows + 1] the index of each row's first piece
    int64_t n_rows, n_tokens; // n_tokens: inputs of all pieces
} packed_rows;

// Packs by best fit decreasing, and orders rows by their first pieces. No piece may be longer than
// row_tokens.
void packing_make(const piece_list *list, int64_t row_tokens, packed_rows *out);
void packing_free(packed_rows *p);
