// Converts the rows of a CSV or TSV file with a header row to texts of one column or to JSON
// objects.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "data/read/csv_scan.h"

typedef struct csv_table csv_table; // single owner

// `header` is the file's first row. `column` names the column with the text. If it is NULL,
// `fields` lists the columns of the JSON objects, ended by NULL; the file need not have all of
// them. DRV_E_DATA: the column is missing or appears twice, or the file has none of the fields; the
// message lists its columns. `file` is for messages and outlives the table.
DRV_CHECKED drv_status csv_table_open(const char *file, char delimiter, const char *header,
        size_t n_header, const char *column, const char *const *fields, csv_table **out);
// Appends the text of the row's column, or an object of the fields {"prompt": "..."}. Bytes that
// are not UTF-8 are kept. Returns why the row is broken, or NULL.
const char *csv_table_take(csv_table *table, const char *row, size_t n_bytes, str *out);
void csv_table_close(csv_table *table); // NULL is allowed
