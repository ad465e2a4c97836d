// Splits comma- or tab-separated values (RFC 4180) into rows and fields while the bytes arrive. A
// field in double quotes may hold delimiters, line ends and, doubled, quotes; a quote in a field
// that does not begin with a quote is an ordinary character, as spreadsheets write it. Rows end
// with LF or CRLF. The same quoting applies to tab-separated files, as pandas and Python's
// excel-tab write them.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

typedef enum csv_event {
    CSV_MORE, // the window ends within the row: ask again with a longer one
    CSV_ROW,  // the window's first `end` bytes are a row, and the next one begins at `next`
    CSV_END   // there are no more rows
} csv_event;

typedef struct csv_scan { // {.delimiter = ','}: before a row
    char delimiter;
    int state;        // where the scan is in the row
    size_t looked;    // bytes of the window that have been scanned
    size_t end, next; // of the row that was found
    const char *why;  // the reason if the row is broken; NULL: it is not
} csv_scan;

// `bytes` is a window of the file that begins at `next` of the last row. It may move between calls,
// and the caller enlarges it until it contains a row. `whole`: the window reaches the end of the
// file. A broken row ends with its line.
csv_event csv_scan_next(csv_scan *scan, const char *bytes, size_t n_bytes, bool whole);

typedef struct csv_fields { // of a row; str_free text, free(3) end
    str text;               // the fields without their quotes, concatenated
    size_t *end;            // [n] offset in `text` at which each field ends
    int n, cap;
} csv_fields;

// Reads the fields of a row that is not broken.
void csv_fields_read(csv_fields *fields, char delimiter, const char *row, size_t n_bytes);
// Field i; *n gets its length.
const char *csv_field(const csv_fields *fields, int i, size_t *n);
void csv_fields_free(csv_fields *fields);
