// Operands that tell cuDNN's attention of several documents in a row: a mask, or where each
// document begins. Both are made once in a program, by the first node that wants them, for all
// layers and both directions.
#pragma once
#include "backend/pjrt/stablehlo/lower.h"

// The rows that they are of: the tensors say which token sees which (ir/ops/attention.c).
typedef struct document_rows {
    const tensor *position, *hidden; // hidden NULL: nothing is
    int64_t rows, seq;
    int64_t padded;     // tokens of a row of the mask, from seq on each sees itself alone
    int64_t window;     // a token sees so many at most; 0: any number
    int64_t n_segments; // of a row, at most
} document_rows;

// Returns bf16 [R, 1, T, T]: 0 where the query (dim 2) sees the key, else a number so low that
// nothing is left of it. What is above the diagonal is as for the token's own document.
hlo_value lower_mask(lowering *l, const document_rows *of);

typedef struct segment_table {
    hlo_value length;         // s32 [R, M]: tokens of all segments in order, then 0
    hlo_value first;          // s32 [R (M + 1)]: of the first tokens of all rows, then R S
    hlo_value segment, place; // s32 [R S], by token: its segment, and its place there
} segment_table;
const segment_table *lower_segments(lowering *l, const document_rows *of);
