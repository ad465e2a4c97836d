// A matrix that is held in blocks (kernels/blocks/quants.h): rows that lie one after the other,
// those of one type before those of the next. A matrix of several types is one that Hugging Face
// has in parts and a file in types of its own for each.
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
// Returns where a row begins, in bytes; *type: what its blocks are.
int64_t block_row_at(const block_matrix *m, int64_t row, const quant_type **type);
bool block_matrix_same(const block_matrix *a, const block_matrix *b);

// Rows are widened in pieces that begin and end at multiples of this many columns, or at the end of
// the row: blocks of 256 are made of parts of 32 that have all they need.
enum { WIDEN_UNIT = 32 };
// The definition of what a held row says: columns [first, first + n) in fp32, by the type's to_f32.
// Whoever multiplies with it in bf16 rounds each to the nearest.
void block_widen(const quant_type *type, const void *row, int64_t first, int64_t n, float *out);
