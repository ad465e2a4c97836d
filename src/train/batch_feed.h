// The rows of a run into the inputs of its programs. The next batch is read while this one computes.
#pragma once
#include "base/task.h"
#include "weights/batch.h"
#include "train/programs.h"

// Of a run: of each row this rank has what it computes with.
batch batch_of_run(arena *a, const run_config *cfg, int64_t n_rows);

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
// or every so many micro-batches one (run_layout.h).
batch_reader batch_reader_new(arena *a, rows *r, const run_config *cfg);
// The next batch, which stays as it is until the next call. `more`: another one will be asked for,
// so it is read meanwhile. An error of that read is returned by the call that asks for it.
DRV_CHECKED drv_status batch_reader_next(batch_reader *reader, bool more, batch **out);
void batch_reader_close(batch_reader *reader); // waits for a read under way
// What the two batches of a run hold, in bytes.
int64_t batch_reader_bytes(const run_config *cfg);
