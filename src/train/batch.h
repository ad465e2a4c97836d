// Rows -> the inputs of the programs.
#pragma once
#include "data/set/rows.h"
#include "train/programs.h"

typedef struct batch { // rows of one global batch (or of one evaluation pass)
    int64_t rows, row_tokens;
    int32_t *tokens, *position, *labels;
    int64_t counted; // labels that count
    str names;       // which rows, for messages
} batch;

DRV_CHECKED drv_status batch_open_rows(arena *a, const run_config *c, bool train, rows **out);
batch batch_new(arena *a, int64_t n_rows, int64_t row_tokens);
DRV_CHECKED drv_status batch_fill(batch *b, rows *r);
// Writes micro-batch `index` to the inputs of every local rank.
DRV_CHECKED drv_status batch_write(const batch *b, programs *p, int64_t index);

// Mean loss over the first `n_batches` micro-batches of `r` (0: all of it), by the eval program.
DRV_CHECKED drv_status evaluate(arena *a, programs *p, rows *r, int64_t n_batches, double *loss,
        int64_t *tokens);
