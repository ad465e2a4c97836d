// Rows and fields of comma- or tab-separated values as RFC 4180 has them, found as the bytes come
// in. A field in double quotes may hold delimiters, line ends and, doubled, quotes; a quote inside
// a field that does not begin with one is a character, as spreadsheets write it. Rows end with LF
// or CRLF. Tab-separated files are quoted alike, as pandas and Python's excel-tab write them.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

typedef enum csv_event {
    CSV_MORE, // the window ends within the row: ask again with a longer one
    CSV_ROW,  // the window's first `end` bytes are a row, and the next one begins at `next`
    CSV_END   // there are no more rows
} csv_event;

typedef struct csv_scan { // {.delimiter = ','}: in front of a row
    char delimiter;
    int state;        // where the scan is in the row
    size_t looked;    // bytes of the window that were passed
    size_t end, next; // of the row that was found
    const char *why;  // why its fields cannot be separated; NULL: they can
} csv_scan;

// The window of n_bytes bytes begins where the last row's `next` was. It may move from call to call,
// and grows until a row is there. `whole`: no bytes come after it. A broken row ends with its line.
csv_event csv_scan_next(csv_scan *scan, const char *bytes, size_t n_bytes, bool whole);

typedef struct csv_fields { // of a row; str_free text, free(3) end
    str text;               // their bytes without quotes, one after the other
    size_t *end;            // [n] where each ends in it
    int n, cap;
} csv_fields;

// Reads the fields of a row that is not broken.
void csv_fields_read(csv_fields *fields, char delimiter, const char *row, size_t n_bytes);
// Field i; *n gets its length.
const char *csv_field(const csv_fields *fields, int i, size_t *n);
void csv_fields_free(csv_fields *fields);
