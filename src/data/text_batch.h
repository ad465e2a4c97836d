// Records turned into text on all threads, in the order of the input.
#pragma once
#include "data/reader.h"
#include "tok/tokenizer.h"

typedef struct text_batch {
    text_piece *pieces; // valid UTF-8, owned by the batch
    int n;
    bool more;                 // there may be another batch
    int64_t skipped, replaced; // broken records; invalid byte sequences, read as U+FFFD
    int files_done;            // so many files lie behind this batch and those before
    record *records;           // as they were read
    int n_records;
    int64_t named; // broken records
    str *texts;
    int64_t *bad;
} text_batch;
enum { TEXT_BATCH = 4096, TEXT_BATCH_BYTES = 4 << 20, TEXT_BATCH_LEAST = 1 << 20 };

text_batch *text_batch_new(void);
void text_batch_free(text_batch *b);
// Reads the next records; a batch of some size ends with its file. May run
// beside the decoding of another batch.
DRV_CHECKED drv_status text_batch_read(text_batch *b, reader *r);
// Makes pieces of them. A broken record is skipped, counted and named, or fails with opts.strict.
DRV_CHECKED drv_status text_batch_decode(text_batch *b, const reader *r);
