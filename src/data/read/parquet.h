// Reads one string column of a Parquet file (github.com/apache/parquet-format), one page at a time,
// so memory does not grow with the file.
#pragma once
#include "data/read/record_source.h"

// The key of the options is the column's name, or the names on its path with dots between them.
// DRV_E_DATA: no such column, or it is not made of byte strings; the message lists those that are.
DRV_CHECKED drv_status parquet_open(const source_job *job, record_source *out);
