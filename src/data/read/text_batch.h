// Decodes records to text on all threads, in the order of the input.
#pragma once
#include "data/read/reader.h"
#include "tok/tokenizer.h"

enum { TEXT_BATCH = 4096, TEXT_BATCH_BYTES = 4 << 20, TEXT_BATCH_MIN = 1 << 20 };

typedef struct text_batch {
    text_piece *pieces;        // valid UTF-8, owned by the batch; p NULL: a broken record
    int n;                     // records and pieces
    bool more;                 // there may be another batch
    int64_t skipped, replaced; // broken records; invalid byte sequences, replaced by U+FFFD
    int files_done; // files that are complete in this batch and earlier ones, if the batch ends at
                    // the end of a file
    // The members below are private. All buffers are reused for the next batch.
    int n_threads;
    record *records;
    str raw;                  // the bytes of the records, concatenated
    struct batch_text *texts; // what each thread decoded
    struct batch_span *spans; // the position of each text
} text_batch;

text_batch *text_batch_new(void);
void text_batch_free(text_batch *batch);
// Reads the next records. Once a batch has more than TEXT_BATCH_MIN bytes or TEXT_BATCH / 4
// records, it ends at the end of a file. May run while another batch is decoded.
DRV_CHECKED drv_status text_batch_read(text_batch *batch, reader *in);
// Decodes records[i] to pieces[i] and calls `each` for each piece on the thread that decoded it.
// `each` returns NULL, or the reason why the record is broken (a text that lives until the next
// text_batch_read). A broken record has no piece: it is skipped, counted and logged, or, with
// opts.strict, an error.
typedef const char *(*text_batch_each)(void *ctx, const text_piece *p, int i, int thread);
DRV_CHECKED drv_status text_batch_decode(text_batch *batch, const reader *in, text_batch_each each,
        void *ctx);
