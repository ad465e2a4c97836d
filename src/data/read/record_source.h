// Records of a file whose format cuts them itself: a table of formats, by the kind of the file. The
// others (text, JSON lines, CSV) are streams that reader.c cuts.
#pragma once
#include "data/read/json_row.h"
#include "data/read/reader.h"

// The functions of a format, on what it has opened.
typedef struct record_source_ops {
    drv_status (*next)(void *state, str *bytes, record *out, bool *done);
    int64_t (*where)(const void *state);
    const json_row_notes *(*notes)(const void *state); // NULL: its rows are no JSON
    void (*close)(void *state);
} record_source_ops;

typedef struct record_source { // single owner; zero: none is open
    const record_source_ops *ops;
    void *state;
} record_source;

// A request to open a file: the path to read it by, and the options, which outlive the source.
typedef struct source_job {
    const input_file *file;
    const char *path;
    const reader_opts *o;
} source_job;

// Returns the name of the format of files of this kind; NULL: it has no source.
const char *record_source_format(input_kind kind);
// Returns whether values lie here and there in such a file, so that it can be neither packed nor a
// pipe.
bool record_source_seeks(input_kind kind);
// `path` is that of the file, or of standard input's own file. `file` and `opts` outlive the source.
DRV_CHECKED drv_status record_source_open(const input_file *file, const char *path,
        const reader_opts *opts, record_source *out);
// Appends the next record and sets json, ids, labels and broken of *out; *done: there are no more.
DRV_CHECKED drv_status record_source_next(record_source *source, str *bytes, record *out,
        bool *done);
// Returns what was noted of rows as JSON; NULL: nothing ever is.
const json_row_notes *record_source_notes(const record_source *source);
int64_t record_source_where(const record_source *source); // bytes of the file that were passed
void record_source_close(record_source *source);          // and zeroes it
