// The rows of a run into the inputs of its programs. The next batch is read while this one computes.
#pragma once
#include "base/task.h"
#include "programs/programs.h"
#include "data/set/batch.h"

// Makes a batch of n_rows rows, each with the part that this rank computes with.
batch batch_of_run(arena *a, const run_config *cfg, int64_t n_rows);

// Writes all that the training program of a chunk (or INPUT_ALONE) takes of micro-batch m of this
// rank: its rows, where their tokens come from if it has dropout, its number in the
// run if gradients are rounded, and which of the rank's it is if sums travel.
DRV_CHECKED drv_status batch_feed(const batch *b, programs *p, int chunk, int64_t m);
// Returns this rank's part of the hash of a global batch, the same on any layout: of tokens and
// positions the first stage has one, of labels the last, of each the first tensor rank.
uint64_t batch_hash(const batch *b, const run_config *cfg);
// Writes the rows alone, which is all that an evaluation takes.
DRV_CHECKED drv_status batch_feed_rows(const batch *b, programs *p, int chunk, int64_t m);
// Writes all of the batch to the inputs of a whole step (programs.h).
DRV_CHECKED drv_status batch_feed_step(const batch *b, programs *p);

// Full batches, one after the other, each read ahead by a thread. Owns the position of `rows`.
typedef struct batch_reader {
    rows *rows;
    int64_t n_global; // rows of a global batch
    batch batches[2];
    int current; // the batch that the caller has
    bool started;
    task task; // fills the other one
} batch_reader;
// Makes a reader of the rows that a data rank has in the global batches of a config: its share one
// after the other, or every so many micro-batches one (run_layout.h).
batch_reader batch_reader_new(arena *a, rows *r, const run_config *cfg);
// Waits so many seconds at most, and returns whether batch_reader_next will not wait.
bool batch_reader_ready(batch_reader *reader, double at_most_s);
// Hands over the next batch, which stays as it is until the next call. `more`: another one will be
// asked for, so it is read meanwhile. An error of that read is returned by the call that asks for
// it.
DRV_CHECKED drv_status batch_reader_next(batch_reader *reader, bool more, batch **out);
void batch_reader_close(batch_reader *reader); // waits for a read under way
// Returns the bytes of the two batches that a run holds.
int64_t batch_reader_bytes(const run_config *cfg);
