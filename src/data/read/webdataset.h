// Reads the samples of a WebDataset archive. A sample is a sequence of consecutive members whose
// names are equal up to the first dot. KEY.txt is a text, KEY.json an object with a text or an
// array of token ids; both may end in .gz.
#pragma once
#include "data/read/inputs.h"
#include "base/str.h"

typedef struct webdataset_opts {
    bool is_named; // the user named a key: KEY.json is preferred to KEY.txt
    bool lines;    // only KEY.json is read
    bool ids;      // an array of integers in KEY.json is token ids
} webdataset_opts;

typedef enum webdataset_gives {
    WEBDATASET_GIVES_TEXT,
    WEBDATASET_GIVES_JSON,
    WEBDATASET_GIVES_IDS // an int32_t for each
} webdataset_gives;

typedef struct webdataset webdataset; // single owner
// `file` outlives the reader.
DRV_CHECKED drv_status webdataset_open(const input_file *file, const webdataset_opts *opts,
        webdataset **out);
// Appends the next sample. *broken: the reason if it has no text, else NULL. *done is set after the
// last sample. DRV_E_DATA: the archive is broken.
DRV_CHECKED drv_status webdataset_next(webdataset *set, str *out, webdataset_gives *gives,
        const char **broken, bool *done);
// record_source.c has these in a table for all formats, so `source` is untyped: a webdataset.
int64_t webdataset_where(const void *source); // bytes of the file read so far
void webdataset_close(void *source);
