// A matrix in quantised blocks (kernels/blocks/quants.h). Rows are contiguous, and rows of one type
// precede those of the next. A fused matrix has several types if a GGUF file has a different one
// for each part.
#pragma once
#include <stdbool.h>
#include <string.h>

#include "kernels/blocks/quants.h"

enum { MAX_BLOCK_PARTS = 3 };

typedef struct block_rows {
    int64_t rows;
    const quant_type *type;
} block_rows;

typedef struct block_matrix {
    int64_t columns; // a multiple of every type's block
    int n_parts;
    block_rows part[MAX_BLOCK_PARTS];
} block_matrix;

int64_t block_row_bytes(const quant_type *type, int64_t columns);
int64_t block_matrix_bytes(const block_matrix *m);
// Returns the byte offset of a row; *type: the type of its blocks.
int64_t block_row_at(const block_matrix *m, int64_t row, const quant_type **type);
// Returns the byte offset of an element with which a block begins, or, of the element after the
// last one, the end.
int64_t block_matrix_at(const block_matrix *m, int64_t element);
bool block_matrix_same(const block_matrix *a, const block_matrix *b);

// Rows are widened in pieces that begin and end at multiples of this many columns, or at the end of
// the row: blocks of 256 consist of independent parts of 32.
enum { WIDEN_UNIT = 32 };
// Defines the values of a row: converts columns [first, first + n) to fp32 by the type's to_f32.
// Products in bf16 round each value to nearest.
void block_widen(const quant_type *type, const void *row, int64_t first, int64_t n, float *out);
