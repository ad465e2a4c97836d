// Reads the entries of one leaf column of a Parquet file in order. An entry is a value, or a pair
// of levels that say where a value is missing. Pages are read one at a time, so memory does not
// grow with the file.
#pragma once
#include "data/read/parquet_footer.h"
#include "data/read/parquet_page.h"

typedef struct parquet_slot {
    int repetition, definition; // levels: which list continues, how much of the path is present
    bool present;
    byte_array value; // valid until parquet_pages_peek reads the next entry
} parquet_slot;

typedef struct parquet_pages parquet_pages; // single owner
// `file` and `column` outlive it.
parquet_pages *parquet_pages_new(const parquet_file *file, const parquet_column *column);
void parquet_pages_free(parquet_pages *pages);
// Returns the current entry; repeated calls return the same one. *there is set to false after the
// last one.
DRV_CHECKED drv_status parquet_pages_peek(parquet_pages *pages, parquet_slot *out, bool *there);
void parquet_pages_pass(parquet_pages *pages);           // moves past the current entry
int64_t parquet_pages_where(const parquet_pages *pages); // bytes of the file read so far
