// Finds where the elements of a piece lie in its tensor. Both are counted row by row, so the
// elements of a piece within a run of the tensor's are a run of its own.
#pragma once
#include "ckpt/ckpt.h"

static inline int64_t tensor_columns(const st_entry *e) {
    return e->n_dims == 2 ? e->dim[1] : 1;
}

static inline int64_t piece_elements(const ckpt_piece *p) {
    return p->rows * p->columns;
}

// Returns how many elements of a piece come before element `at` of a tensor of `columns`.
int64_t piece_before(const ckpt_piece *p, int64_t columns, int64_t at);
// Returns where element i of the piece is in the tensor; *run: as many follow it there without a
// gap.
int64_t piece_index(const ckpt_piece *p, int64_t columns, int64_t i, int64_t *run);
// Cuts elements [first, first + n) of a matrix [.., columns] whose first element is (row, 0) into
// up to MAX_CKPT_PIECES rectangles, values one after the other; returns how many. `first` counts
// from that row.
int pieces_of_run(int64_t first, int64_t n, int64_t columns, ckpt_piece *out);
