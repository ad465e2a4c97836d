// The samples of a WebDataset archive: members that follow each other and have one name up to the
// first dot. KEY.txt is a text, KEY.json an object with a text, or an array of token ids; both also
// with .gz.
#pragma once
#include "data/read/inputs.h"
#include "base/str.h"

typedef struct webdataset_opts {
    bool is_named; // the user named a key: KEY.json comes before KEY.txt
    bool lines;    // only KEY.json counts
    bool ids;      // an array of integers in KEY.json is token ids
} webdataset_opts;

typedef enum webdataset_gives {
    WEBDATASET_GIVES_TEXT,
    WEBDATASET_GIVES_JSON,
    WEBDATASET_GIVES_IDS // an int32_t for each
} webdataset_gives;

typedef struct webdataset webdataset; // single owner
// `file` outlives it.
DRV_CHECKED drv_status webdataset_open(const input_file *file, const webdataset_opts *opts,
        webdataset **out);
// Appends the next sample. *broken: why it has no text, else NULL. *done: there are no more.
// DRV_E_DATA: the archive is broken.
DRV_CHECKED drv_status webdataset_next(webdataset *set, str *out, webdataset_gives *gives,
        const char **broken, bool *done);
// The functions below take what webdataset_open has opened, as rows of record_source.c do.
int64_t webdataset_where(const void *source); // bytes read of the file
void webdataset_close(void *source);
