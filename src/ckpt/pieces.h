// Maps the elements of a piece to those of its tensor. Both are numbered row by row, so the
// elements of a piece that are in a contiguous range of the tensor are a contiguous range of the
// piece.
#pragma once
#include "ckpt/ckpt.h"

static inline int64_t tensor_columns(const st_entry *e) {
    return e->n_dims == 2 ? e->dim[1] : 1;
}

static inline int64_t piece_elements(const ckpt_piece *p) {
    return p->rows * p->columns;
}

// Returns the number of elements of a piece that precede element `at` of a tensor with `columns`
// columns.
int64_t piece_before(const ckpt_piece *p, int64_t columns, int64_t at);
// Returns the index in the tensor of element i of the piece, and sets *run to the number of
// elements that are contiguous from there on.
int64_t piece_index(const ckpt_piece *p, int64_t columns, int64_t i, int64_t *run);
// Divides elements [first, first + n) of a matrix [.., columns] into up to MAX_CKPT_PIECES
// rectangles, whose values are consecutive; returns their number.
int pieces_of_run(int64_t first, int64_t n, int64_t columns, ckpt_piece *out);
