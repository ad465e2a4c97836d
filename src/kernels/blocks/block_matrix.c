// Finds rows of blocks in memory, and converts them to fp32.
#include "kernels/blocks/block_matrix.h"

int64_t block_row_bytes(const quant_type *type, int64_t columns) {
    return columns / type->block * type->block_bytes;
}

int64_t block_matrix_bytes(const block_matrix *m) {
    int64_t bytes = 0;
    for (int i = 0; i < m->n_parts; i++)
        bytes += m->part[i].rows * block_row_bytes(m->part[i].type, m->columns);
    return bytes;
}

int64_t block_row_at(const block_matrix *m, int64_t row, const quant_type **type) {
    int64_t at = 0;
    int i = 0;
    for (; i + 1 < m->n_parts && row >= m->part[i].rows; i++) {
        at += m->part[i].rows * block_row_bytes(m->part[i].type, m->columns);
        row -= m->part[i].rows;
    }
    *type = m->part[i].type;
    return at + row * block_row_bytes(*type, m->columns);
}

int64_t block_matrix_at(const block_matrix *m, int64_t element) {
    const quant_type *type;
    const int64_t row = block_row_at(m, element / m->columns, &type);
    return row + block_row_bytes(type, element % m->columns);
}

bool block_matrix_same(const block_matrix *a, const block_matrix *b) {
    if (!a || !b) return a == b;
    if (a->columns != b->columns || a->n_parts != b->n_parts) return false;
    for (int i = 0; i < a->n_parts; i++)
        if (a->part[i].rows != b->part[i].rows || a->part[i].type != b->part[i].type) return false;
    return true;
}

void block_widen(const quant_type *type, const void *row, int64_t first, int64_t n, float *out) {
    enum { LARGEST = 256 };
    const unsigned char *blocks = row;
    float values[LARGEST];
    for (int64_t done = 0; done < n;) {
        const int64_t block = (first + done) / type->block, skip = (first + done) % type->block,
                      left = n - done;
        const int64_t take = left < type->block - skip ? left : type->block - skip;
        type->to_f32(blocks + block * type->block_bytes, 1, values);
        memcpy(out + done, values + skip, sizeof *out * (size_t)take);
        done += take;
    }
}
