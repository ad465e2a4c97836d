// Writes the rows of a run to the inputs of its programs, and reads the next batch meanwhile.
#pragma once
#include "base/task.h"
#include "programs/programs.h"
#include "data/set/batch.h"

// Makes a batch of n_rows rows that holds the part of each row that this rank processes.
batch batch_of_run(arena *a, const run_config *cfg, int64_t n_rows);

// Writes the inputs of the training program of a chunk (or INPUT_ALONE) for micro-batch m of this
// rank: its rows and, if the program has such inputs, the origin of their tokens (dropout), the
// number of its first row (rounded gradients) and its index on this rank (ZeRO-2).
DRV_CHECKED drv_status batch_feed(const batch *b, programs *p, int chunk, int64_t m);
// Returns this rank's part of the hash of a global batch; the sum over all ranks is the same on any
// layout. The first pipeline stage hashes tokens and positions, the last one labels, both only on
// the first tensor rank.
uint64_t batch_hash(const batch *b, const run_config *cfg);
// Writes only the rows, which are all the inputs of an evaluation.
DRV_CHECKED drv_status batch_feed_rows(const batch *b, programs *p, int chunk, int64_t m);
// Writes all of the batch to the inputs of a whole step (programs.h).
DRV_CHECKED drv_status batch_feed_step(const batch *b, programs *p);

// Reads full batches one after the other, each ahead of its use by a thread. Owns the position of
// `rows`.
typedef struct batch_reader {
    rows *rows;
    int64_t n_global; // rows of a global batch
    batch batches[2];
    int current; // index of the batch that the caller uses
    bool started;
    task task; // fills the other one
} batch_reader;
// Makes a reader of this data rank's rows of the global batches of a config: consecutive
// micro-batches, or every n-th one (run_layout.h: every_micro).
batch_reader batch_reader_new(arena *a, rows *r, const run_config *cfg);
// Waits for at most at_most_s seconds; returns whether batch_reader_next would return at once.
bool batch_reader_ready(batch_reader *reader, double at_most_s);
// Returns the next batch, which is valid until the next call. `more`: begins to read the batch
// after it; an error of that read is returned by the call that asks for that batch.
DRV_CHECKED drv_status batch_reader_next(batch_reader *reader, bool more, batch **out);
void batch_reader_close(batch_reader *reader); // waits for a read under way
// Returns the bytes of the two batches that a run holds.
int64_t batch_reader_bytes(const run_config *cfg);
