// Reads one string column of a Parquet file (github.com/apache/parquet-format), one page at a time,
// so memory does not grow with the file.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef struct parquet_reader parquet_reader; // single owner
// `column`: its name, or its dotted path in nested columns. DRV_E_DATA: there is no such column, or
// it does not contain byte strings; the message lists the columns that do.
DRV_CHECKED drv_status parquet_open(const char *path, const char *column, parquet_reader **out);
// Appends the value of the next row. *row is set to false after the last row.
DRV_CHECKED drv_status parquet_next(parquet_reader *reader, str *out, bool *null, bool *row);
// record_source.c has these in a table for all formats, so `source` is untyped: a parquet_reader.
int64_t parquet_where(const void *source); // bytes of the file read so far
void parquet_close(void *source);
