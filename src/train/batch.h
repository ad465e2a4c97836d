// Rows -> the inputs of the programs. The next batch is read while this one computes.
#pragma once
#include "base/task.h"
#include "data/set/rows.h"
#include "train/programs.h"

// Rows of one global batch, those that a rank computes with, or of a micro-batch of an evaluation.
typedef struct batch {
    int64_t rows, row_tokens; // row_tokens: of a row, on this rank
    zigzag cut;               // how ranks share a row
    int place;                // of this rank in it
    int64_t micro;            // rows of a micro-batch, whose leaves follow each other
    int32_t *row;             // [3, cut.tokens] a whole row; NULL: rows are not cut
    // Micro-batch m here is number first_micro + m every_micro of the global batch.
    int64_t first_micro, every_micro;
    int64_t filled;                      // rows that are there
    int32_t *tokens, *position, *labels; // [rows, row_tokens]; label -1: nothing to predict
    int64_t counted;                     // labels that count
    int64_t rows_before, rows_taken;     // of the source: before the global batch, with it
    str names;                           // which rows, for messages; str_free it
} batch;

// The rows to train on, or those of an evaluation (data.valid or the split). stride: 0: cut or
// packed as those of training; else windows with all the context that a row holds (piece_windows).
DRV_CHECKED drv_status batch_open_rows(arena *mem, const run_config *cfg, bool train,
        int64_t stride, rows **out);

batch batch_new(arena *a, int64_t n_rows, int64_t row_tokens);
// Of a run: of each row this rank has what it computes with.
batch batch_of_run(arena *a, const run_config *cfg, int64_t n_rows);
void batch_clear(batch *b);
// DRV_E_IO, DRV_E_DATA: the data set is gone, shorter, or has a token beyond the vocabulary.
DRV_CHECKED drv_status batch_add_row(batch *b, rows *r);
// The same of a row that is there: of its tokens, positions and labels what this rank has.
void batch_put_row(batch *b, const int32_t *tokens, const int32_t *position, const int32_t *labels);
// Rows that predict nothing up to the last one.
void batch_pad(batch *b);
// The number of micro-batch m of this rank in the global batch.
int64_t batch_index(const batch *b, int64_t m);
// Writes micro-batch m of this rank to the inputs of every local rank.
DRV_CHECKED drv_status batch_write(const batch *b, programs *p, int64_t m);

// Writes all of it, to the inputs of a whole step (programs.h), where tokens are from as well.
DRV_CHECKED drv_status batch_write_whole(const batch *b, programs *p);

// The same for one stage of a pipeline, into a slot: what that stage takes of the micro-batch.
DRV_CHECKED drv_status batch_write_stage(const batch *b, programs *p, int chunk, int slot,
        int64_t m);

// Writes where the tokens of micro-batch m come from, which dropout is a function of: the
// number of the row in the run and the place in it. `chunk`, `slot`: of a stage; -1, 0: no pipeline.
DRV_CHECKED drv_status batch_write_origin(const batch *b, programs *p, int chunk, int slot,
        int64_t m);

// The number of micro-batch m in the run, which the rounding of gradients in bf16 is a
// function of. As above; nothing where gradients are fp32.
DRV_CHECKED drv_status batch_write_number(const batch *b, programs *p, int chunk, int slot,
        int64_t m);

// Which of this rank's micro-batches it is, for ops that have to do with other ranks' gradients. As
// above; nothing where there are none.
DRV_CHECKED drv_status batch_write_turn(programs *p, int chunk, int slot, int64_t m);

// Full batches, one after the other, each read ahead by a thread. Owns the position of `rows`.
typedef struct batch_reader {
    rows *rows;
    int64_t n_global; // rows of a global batch
    batch batches[2];
    int current; // the batch that the caller has
    bool started;
    task task; // fills the other one
} batch_reader;
// Of the global batches of a config the rows that a data rank has: its share one after the other,
// or every so many micro-batches one (zero.h).
batch_reader batch_reader_new(arena *a, rows *r, const run_config *cfg, int place);
// The next batch, which stays as it is until the next call. `more`: another one will be asked for,
// so it is read meanwhile. An error of that read is returned by the call that asks for it.
DRV_CHECKED drv_status batch_reader_next(batch_reader *reader, bool more, batch **out);
void batch_reader_close(batch_reader *reader); // waits for a read under way
// What the two batches of a run hold, in bytes.
int64_t batch_reader_bytes(const run_config *cfg);
