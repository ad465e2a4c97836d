// Records of text from files: .txt (a file is a document, or the parts between a separator),
// .jsonl, .ndjson and .json (an object a line), .parquet (a row). Texts and lines also as .gz or
// .zst.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "data/read/inputs.h"

typedef struct reader_opts {
    const char *key;       // of the text in .jsonl, the column in .parquet; NULL: "text"
    const char *separator; // of .txt; NULL: the file is one document
    bool strict;           // a broken record stops the run instead of being skipped
    bool whole;            // long texts are not cut into pieces
} reader_opts;

typedef struct record {
    str bytes;      // a line of JSON, or text as it lies: not yet UTF-8
    int file;       // number in the list
    int64_t number; // line, row or document in the file, from 1
    bool json;
    bool begins, ends;  // pieces of one text, see split_cut; a record alone is both
    const char *broken; // why there is no text; NULL: there is
} record;

typedef struct reader reader; // single owner
DRV_CHECKED drv_status reader_open(arena *a, const char *const *inputs, int n, const reader_opts *o,
        reader **out);
// Goes on behind so many files. Before the first reader_next.
void reader_skip_files(reader *r, int n);
// *more is false at the end.
DRV_CHECKED drv_status reader_next(reader *r, record *out, bool *more);
// Takes a record back: the next reader_next gives it. Swaps, so that no text is copied.
void reader_put_back(reader *r, record *x);
void reader_close(reader *r);

const input_file *reader_files(const reader *r, int *n);
const reader_opts *reader_options(const reader *r);
int64_t reader_bytes(const reader *r, int64_t *total); // read, of the files as they lie
