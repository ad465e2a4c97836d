// Documents from files: .txt (a file is a document, or parts between a separator), .jsonl and .json
// lines with a text key; each also as .gz or .zst. Folders are walked in name order.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef struct reader_opts {
    const char *json_key;  // of .jsonl; NULL: "text"
    const char *separator; // of .txt; NULL: the file is one document
    bool strict;           // a broken record stops the run
} reader_opts;

typedef struct reader reader; // single owner

// `inputs` are files, folders or "-" (standard input, text). DRV_E_IO: a file is missing.
DRV_CHECKED drv_status reader_open(
        arena *a, const char *const *inputs, int n, const reader_opts *o, reader **out);
// The next document as valid UTF-8 (invalid bytes become U+FFFD and are counted) into *doc, which
// is cleared first. *more is false at the end.
DRV_CHECKED drv_status reader_next(reader *r, str *doc, bool *more);
void reader_close(reader *r);

typedef struct reader_progress {
    int64_t bytes_done, bytes_total; // of the files as they lie
    int64_t skipped, replaced;       // records; invalid byte sequences
} reader_progress;
reader_progress reader_where(const reader *r);
