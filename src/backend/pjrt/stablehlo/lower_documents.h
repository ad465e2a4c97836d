// Operands that describe the documents of a row to cuDNN's attention: a mask, or the beginning of
// each document. Both are made once in a program, by the first node that needs them, for all layers
// and both directions.
#pragma once
#include "backend/pjrt/stablehlo/lower.h"

// The rows, with the tensors from which follows which token sees which (ir/ops/attention.c).
typedef struct document_rows {
    const tensor *position, *hidden; // hidden NULL: no token is hidden
    int64_t rows, seq;
    int64_t padded;     // tokens of a row of the mask; those from seq on are padding
    int64_t window;     // the most tokens that a token sees; 0: any number
    int64_t n_segments; // the most segments of a row
} document_rows;

// Returns bf16 [R, 1, T, T]: 0 if the query (dim 2) sees the key, else a number so low that the
// exponential of the score is 0. Keys after the query count as seen: the call itself is causal.
hlo_value lower_mask(lowering *l, const document_rows *of);

// Returns the first token that each token sees, i32 in the dims of `token`, the indices of the
// tokens in their rows. `position` counts from the beginning of the document, without hidden
// tokens, which are those from end[0] to before end[1] (NULL: none); window 0: any number of
// tokens.
hlo_value lower_first_seen(hlo_text *h, hlo_value token, hlo_value position, const hlo_value *end,
        int64_t window);

typedef struct segment_table {
    hlo_value length; // s32 [R, M]: the lengths of all segments in order, then 0
    hlo_value first;  // s32 [R (M + 1)]: the first tokens of all segments in order, then R S
    hlo_value segment, place; // s32 [R S], by token: its segment, and its place there
} segment_table;
const segment_table *lower_segments(lowering *l, const document_rows *of);
