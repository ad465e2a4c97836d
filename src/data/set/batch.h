// A batch: rows of tokens in the layout of the programs' inputs.
#pragma once
#include "data/set/rows.h"
#include "ir/program_inputs.h"
#include "ir/zigzag.h"

// The rows of one global batch that this rank computes, or those of a micro-batch of an evaluation.
enum { BATCH_ARRAYS = 3, BATCH_PAIR_ARRAYS = BATCH_ARRAYS + 1 + 2 + 2 }; // numbers of a token
typedef struct batch {
    int64_t rows, row_tokens; // row_tokens: tokens of a row on this rank
    zigzag zigzag;            // how ranks share a row
    int place;                // of this rank in it
    int64_t micro;            // rows of a micro-batch; their reduction blocks are consecutive
    // Buffer for a whole row: BATCH_ARRAYS arrays, or BATCH_PAIR_ARRAYS for rows of pairs, of
    // [zigzag.tokens] each. NULL: rows are not divided among ranks.
    int32_t *row;
    // Micro-batch m of this rank is micro-batch first_micro + m every_micro of the global batch.
    int64_t first_micro, every_micro;
    int64_t filled;                      // rows added so far
    int32_t *tokens, *position, *labels; // [rows, row_tokens]; label -1: no loss
    int64_t counted;                     // labels with a loss
    int32_t *hidden; // [rows, row_tokens, 2], the range that each token does not attend to
                     // (attention_args); NULL: none
    // Only for rows of pairs (row_out), otherwise NULL. Pairs are numbered within a micro-batch,
    // those of its row i from i zigzag.tokens / 2 on; `number` has the index of each among all
    // pairs.
    int32_t *pair, *reference; // [rows, row_tokens], [rows, row_tokens, 2]
    int64_t *number;           // [rows, zigzag.tokens / 2]
    int64_t pairs;             // pairs whose chosen response begins on this rank
    int64_t rows_before,
            rows_taken; // rows taken from the source before and after this global batch
    row_count *counts;  // the same after this batch for each data set; NULL: not wanted
    str names;          // the names of the rows, for messages; free by str_free
} batch;

batch batch_new(arena *a, int64_t n_rows, int64_t row_tokens);
// Allocate `hidden`, and all arrays for pairs including `hidden`. b->zigzag must be set.
void batch_add_hidden(arena *a, batch *b);
void batch_add_pairs(arena *a, batch *b);
void batch_clear(batch *b);
// Adds the next row of `r`. DRV_E_IO, DRV_E_DATA: the data set has been removed or truncated, or
// has a token outside the vocabulary.
DRV_CHECKED drv_status batch_add_row(batch *b, rows *r);
// Copies this rank's part of a whole row to the next row of the batch. The caller increments
// b->filled.
void batch_put_row(batch *b, const row_out *row);
// Adds a row that `make` writes as a whole. Its labels are counted only if the row is divided among
// ranks.
typedef void (*row_maker)(void *ctx, const row_out *row);
void batch_make_row(batch *b, row_maker make, void *ctx);
// Fills the rest of the batch with rows without a loss.
void batch_pad(batch *b);
// Returns the number of micro-batch m of this rank in the global batch.
int64_t batch_index(const batch *b, int64_t m);
// Returns the numbers of an input, one of INPUT_TOKENS to INPUT_HIDDEN, from row `first` on.
const int32_t *batch_values(const batch *b, program_input which, int64_t first);
// Returns the bytes that n rows of such an input take.
int64_t batch_bytes(const batch *b, program_input which, int64_t n);
