// Reads records of formats that define record boundaries themselves, by a table with one row for
// each format. The other formats (text, JSON lines, CSV) are streams that reader.c splits.
#pragma once
#include "data/read/json_row.h"
#include "data/read/reader.h"

// The token ids of a file. IDS_UNTYPED: the options may name their type, which the file does not.
typedef enum id_use { IDS_NONE, IDS_TYPED, IDS_UNTYPED } id_use;

// The functions of a format, on what it has opened.
typedef struct record_source_ops {
    drv_status (*next)(void *state, str *bytes, record *out, bool *done);
    int64_t (*where)(const void *state);
    const json_row_notes *(*notes)(const void *state); // NULL: its rows are no JSON
    id_use (*ids)(const void *state);                  // NULL: its records say
    void (*close)(void *state);
} record_source_ops;

typedef struct record_source { // single owner; zero: none is open
    const record_source_ops *ops;
    void *state;
} record_source;

// A request to open a file: the path to read it by, and the options, which outlive the source. An
// opener sets *out before it can fail with something to close; record_source_open closes it then.
typedef struct source_job {
    const input_file *file;
    const char *path;
    const reader_opts *o;
} source_job;

// Returns the name of the format of files of this kind; NULL: it has no source.
const char *record_source_format(input_kind kind);
// Returns whether such a file is read by random access, so that it can be neither compressed nor a
// pipe.
bool record_source_seeks(input_kind kind);
// `path` is the path of the file, or of the file that standard input was redirected from. `file`
// and `opts` outlive the source.
DRV_CHECKED drv_status record_source_open(const input_file *file, const char *path,
        const reader_opts *opts, record_source *out);
// Appends the next record and sets json, ids, labels and broken of *out. *done is set after the
// last one.
DRV_CHECKED drv_status record_source_next(record_source *source, str *bytes, record *out,
        bool *done);
// Returns the notes on rows that are JSON; NULL: the format has none.
const json_row_notes *record_source_notes(const record_source *source);
// Returns which ids the source has: IDS_TYPED too where only its records say whether it has any.
id_use record_source_ids(const record_source *source);
int64_t record_source_where(const record_source *source); // bytes of the file read so far
void record_source_close(record_source *source);          // and zeroes it
