// The rows of a Parquet file as JSON objects: chosen columns of it with all that is in them, lists
// and structs included. Maps, decimals, dates and times are left out, and members that are null.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "data/read/json_row.h"

typedef struct parquet_rows parquet_rows; // single owner
// `fields`: names of top-level columns, NULL at the end; the file need not have all of them. What
// is left out of those that it has is logged. DRV_E_DATA: it has none with text in it; the message
// lists what it has.
DRV_CHECKED drv_status parquet_rows_open(const char *path, const char *const *fields,
        parquet_rows **out);
// Appends the next row. Bytes that are not UTF-8 stay in its strings. *row false: there are no more.
DRV_CHECKED drv_status parquet_rows_next(parquet_rows *rows, str *out, bool *row);
const json_row_notes *parquet_rows_notes(const parquet_rows *rows);
int64_t parquet_rows_where(const parquet_rows *rows); // bytes of the file that were passed
void parquet_rows_close(parquet_rows *rows);
