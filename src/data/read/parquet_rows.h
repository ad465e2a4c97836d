// Reads the rows of a Parquet file as JSON objects: the chosen columns with their nested lists and
// structs. Maps, decimals, dates, times and null members are omitted. Bytes that are not UTF-8 stay
// in its strings.
#pragma once
#include "data/read/record_source.h"

// The fields of the options are names of top-level columns; the file need not have all of them.
// Parts of its columns that are omitted are logged. DRV_E_DATA: none of them contains text; the
// message lists the file's columns.
DRV_CHECKED drv_status parquet_rows_open(const source_job *job, record_source *out);
