// Maps rectangles of tensors to elements and ranks, and lets all ranks agree on a status.
#include "ckpt/pieces.h"

int ckpt_rank(const ckpt_ranks *r) {
    return r ? comm_rank(r->comm) : 0;
}

int ckpt_size(const ckpt_ranks *r) {
    return r ? comm_size(r->comm) : 1;
}

drv_status ckpt_agree(const ckpt_ranks *r, drv_status status) {
    return r ? comm_agree_on_first(r->comm, status) : status;
}

static int64_t between(int64_t low, int64_t x, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

int64_t piece_before(const ckpt_piece *p, int64_t columns, int64_t at) {
    const int64_t row = at / columns - p->row, column = at % columns - p->column;
    if (row < 0) return 0;
    if (row >= p->rows) return piece_elements(p);
    return row * p->columns + between(0, column, p->columns);
}

int64_t piece_index(const ckpt_piece *p, int64_t columns, int64_t i, int64_t *run) {
    const int64_t row = i / p->columns, column = i % p->columns;
    *run = p->columns == columns ? piece_elements(p) - i : p->columns - column;
    return (p->row + row) * columns + p->column + column;
}

int pieces_of_run(int64_t first, int64_t n, int64_t columns, ckpt_piece *out) {
    int n_pieces = 0;
    for (int64_t at = first, end = first + n; at < end;) {
        const int64_t column = at % columns, left = end - at;
        ckpt_piece *p = &out[n_pieces++];
        *p = (ckpt_piece){.row = at / columns, .rows = 1, .column = column};
        if (column == 0 && left >= columns) p->rows = left / columns;
        p->columns = columns - column < left ? columns - column : left;
        at += piece_elements(p);
    }
    return n_pieces;
}
