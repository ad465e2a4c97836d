// The rows of an Arrow stream, as Hugging Face datasets keeps them (datasets.save_to_disk): a
// column of text, whole rows with the text in them as JSON, or lists of token ids. Memory is that
// of the wanted columns of one record batch.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "data/read/json_row.h"

typedef struct arrow_opts {
    const char *column;        // of the text, or of ids
    bool is_named;             // the user named it: no other column is accepted
    const char *const *fields; // not NULL: rows of those columns that it has of these, as JSON
    bool ids; // accept "input_ids" if there is no text, with "labels" if rows are wanted
} arrow_opts;

// The kind of rows that a file gives.
typedef enum arrow_gives {
    ARROW_GIVES_TEXT,
    ARROW_GIVES_JSON,
    ARROW_GIVES_IDS,          // an int32_t for each id
    ARROW_GIVES_LABELLED_IDS, // then a byte for each: whether its label is itself, or else -100
} arrow_gives;

typedef struct arrow_reader arrow_reader; // single owner
// DRV_E_DATA: the file has none of the columns; the message lists its columns.
DRV_CHECKED drv_status arrow_open(const char *path, const arrow_opts *opts, arrow_reader **out);
arrow_gives arrow_reader_gives(const arrow_reader *reader);
// Appends the next row. *broken: why it has no value, else NULL. *row false: there are no more.
DRV_CHECKED drv_status arrow_next(arrow_reader *reader, str *out, const char **broken, bool *row);
// The functions below take what arrow_open has opened, as rows of record_source.c do.
const json_row_notes *arrow_notes(const void *source); // of rows as JSON
int64_t arrow_where(const void *source);               // bytes of the file that were passed
void arrow_close(void *source);
