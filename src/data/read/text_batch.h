// Records turned into text on all threads, in the order of the input.
#pragma once
#include "data/read/reader.h"
#include "tok/tokenizer.h"

enum { TEXT_BATCH = 4096, TEXT_BATCH_BYTES = 4 << 20, TEXT_BATCH_MIN = 1 << 20 };

typedef struct text_batch {
    text_piece *pieces;        // valid UTF-8, owned by the batch; p NULL: a broken record
    int n;                     // records and pieces
    bool more;                 // there may be another batch
    int64_t skipped, replaced; // broken records; invalid byte sequences, read as U+FFFD
    int files_done; // files that are all in this batch and those before, where it ends with one
    // The members below are the batch's own. All buffers are kept from batch to batch.
    int n_threads;
    record *records;
    str raw;                  // their bytes, one after the other
    struct batch_text *texts; // what each thread decoded
    struct batch_span *spans; // where each text lies
} text_batch;

text_batch *text_batch_new(void);
void text_batch_free(text_batch *batch);
// Reads the next records; a batch of more than TEXT_BATCH_MIN bytes or TEXT_BATCH / 4 records ends
// with its file. May run beside the decoding of another batch.
DRV_CHECKED drv_status text_batch_read(text_batch *batch, reader *in);
// Makes pieces of them, pieces[i] of records[i], and hands each to `each` on the thread that made
// it; that says why the record is broken (a text that lives until the batch is read again), or
// NULL. A broken record has no piece: it is skipped, counted and named, or fails with opts.strict.
typedef const char *(*text_batch_each)(void *ctx, const text_piece *p, int i, int thread);
DRV_CHECKED drv_status text_batch_decode(text_batch *batch, const reader *in, text_batch_each each,
        void *ctx);
