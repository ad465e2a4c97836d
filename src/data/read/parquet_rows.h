// Reads the rows of a Parquet file as JSON objects: the chosen columns with their nested lists and
// structs. Maps, decimals, dates, times and null members are omitted.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "data/read/json_row.h"

typedef struct parquet_rows parquet_rows; // single owner
// `fields`: names of top-level columns, ended by NULL; the file need not have all of them. Logs
// which parts of these columns are omitted. DRV_E_DATA: none of them contains text; the message
// lists the file's columns.
DRV_CHECKED drv_status parquet_rows_open(const char *path, const char *const *fields,
        parquet_rows **out);
// Appends the next row. Bytes that are not UTF-8 stay in its strings. *row is set to false after
// the last row.
DRV_CHECKED drv_status parquet_rows_next(parquet_rows *rows, str *out, bool *row);
// record_source.c has these in a table for all formats, so `source` is untyped: a parquet_rows.
const json_row_notes *parquet_rows_notes(const void *source);
int64_t parquet_rows_where(const void *source); // bytes of the file read so far
void parquet_rows_close(void *source);
