// Reads the rows of an Arrow file or stream, as Hugging Face datasets writes them
// (datasets.save_to_disk): the text of one column, whole rows as JSON, or lists of token ids. Holds
// the wanted columns of one record batch in memory.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "data/read/json_row.h"

typedef struct arrow_opts {
    const char *column; // the column with the text, or with ids
    bool is_named;      // the user named it: no other column is accepted
    const char *const
            *fields; // not NULL: rows are JSON objects of these columns, those that the file has
    bool ids;        // accept "input_ids" if there is no text, with "labels" if rows are wanted
} arrow_opts;

// The form in which rows are returned.
typedef enum arrow_gives {
    ARROW_GIVES_TEXT,
    ARROW_GIVES_JSON,
    ARROW_GIVES_IDS,          // an int32_t for each id
    ARROW_GIVES_LABELLED_IDS, // then a byte for each: 1 if its label is the id itself, 0 if it is
                              // -100
} arrow_gives;

typedef struct arrow_reader arrow_reader; // single owner
// DRV_E_DATA: the file has none of the columns; the message lists its columns.
DRV_CHECKED drv_status arrow_open(const char *path, const arrow_opts *opts, arrow_reader **out);
arrow_gives arrow_reader_gives(const arrow_reader *reader);
// Appends the next row. *broken: the reason if the row has no value, else NULL. *row is set to
// false after the last row.
DRV_CHECKED drv_status arrow_next(arrow_reader *reader, str *out, const char **broken, bool *row);
// record_source.c has these in a table for all formats, so `source` is untyped: an arrow_reader.
const json_row_notes *arrow_notes(const void *source); // NULL unless rows are JSON
int64_t arrow_where(const void *source);               // bytes of the file read so far
void arrow_close(void *source);
