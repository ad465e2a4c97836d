// A batch: rows of tokens as the inputs of programs expect them.
#pragma once
#include "data/set/rows.h"
#include "ir/program_inputs.h"
#include "ir/zigzag.h"

// Rows of one global batch, those that a rank computes with, or of a micro-batch of an evaluation.
enum { BATCH_ARRAYS = 3, BATCH_PAIR_ARRAYS = BATCH_ARRAYS + 1 + 2 + 2 }; // numbers of a token
typedef struct batch {
    int64_t rows, row_tokens; // row_tokens: of a row, on this rank
    zigzag zigzag;            // how ranks share a row
    int place;                // of this rank in it
    int64_t micro;            // rows of a micro-batch, whose reduction blocks follow each other
    // A whole row: [zigzag.tokens] of each array, BATCH_ARRAYS of them, or BATCH_PAIR_ARRAYS of
    // rows of pairs. NULL: rows are not cut.
    int32_t *row;
    // Micro-batch m here is number first_micro + m every_micro of the global batch.
    int64_t first_micro, every_micro;
    int64_t filled;                      // rows that are there
    int32_t *tokens, *position, *labels; // [rows, row_tokens]; label -1: nothing to predict
    int64_t counted;                     // labels that count
    int32_t *hidden; // [rows, row_tokens, 2], what tokens do not see (attention_args); NULL: nothing
    // Rows of pairs (row_out); NULL: others. Pairs are numbered within a micro-batch: those of its
    // row i from i zigzag.tokens / 2 on; `number` has their numbers in the run in this order.
    int32_t *pair, *reference;       // [rows, row_tokens], [rows, row_tokens, 2]
    int64_t *number;                 // [rows, zigzag.tokens / 2]
    int64_t pairs;                   // whose chosen response has its head on this rank
    int64_t rows_before, rows_taken; // of the source: before the global batch, with it
    row_count *counts;               // with it, of each of its data sets; NULL: nobody asks
    str names;                       // which rows, for messages; str_free it
} batch;

batch batch_new(arena *a, int64_t n_rows, int64_t row_tokens);
// Adds the array of hidden tokens; adds all arrays of pairs, that one included. b->zigzag must be
// set.
void batch_add_hidden(arena *a, batch *b);
void batch_add_pairs(arena *a, batch *b);
void batch_clear(batch *b);
// Adds the next row of `r`. DRV_E_IO, DRV_E_DATA: the data set is gone, shorter, or has a token
// beyond the vocabulary.
DRV_CHECKED drv_status batch_add_row(batch *b, rows *r);
// Copies this rank's part of a whole row to the next row of the batch, which the caller then counts
// as filled.
void batch_put_row(batch *b, const row_out *row);
// Adds a row that `make` fills in, whole. Its labels are counted only if ranks share the row.
typedef void (*row_maker)(void *ctx, const row_out *row);
void batch_make_row(batch *b, row_maker make, void *ctx);
// Fills the batch up with rows that predict nothing.
void batch_pad(batch *b);
// Returns the number of micro-batch m of this rank in the global batch.
int64_t batch_index(const batch *b, int64_t m);
// Returns the numbers of an input, one of INPUT_TOKENS to INPUT_HIDDEN, from row `first` on.
const int32_t *batch_values(const batch *b, program_input which, int64_t first);
// Returns the bytes that n rows of such an input take.
int64_t batch_bytes(const batch *b, program_input which, int64_t n);
