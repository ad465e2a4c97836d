// The rows of one string column of a Parquet file (github.com/apache/parquet-format). Pages are
// read one at a time: memory does not grow with the file.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef struct parquet_reader parquet_reader; // single owner
// `column`: its name, or the names on its path with dots between them. DRV_E_DATA: no such column,
// or it is not made of byte strings; the message lists those that are.
DRV_CHECKED drv_status parquet_open(const char *path, const char *column, parquet_reader **out);
// Appends the value of the next row. *row false: there are no more.
DRV_CHECKED drv_status parquet_next(parquet_reader *reader, str *out, bool *null, bool *row);
// The functions below take what parquet_open has opened, as rows of record_source.c do.
int64_t parquet_where(const void *source); // bytes of the file that were passed
void parquet_close(void *source);
