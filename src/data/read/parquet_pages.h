// The slots of one leaf of a Parquet file, in order. A slot is a value, or says where one is
// missing. Pages are read one at a time: memory does not grow with the file.
#pragma once
#include "data/read/parquet_footer.h"
#include "data/read/parquet_page.h"

typedef struct parquet_slot {
    int repetition, definition; // levels: which list continues, how much of the path is there
    bool present;
    byte_array value; // until the slot is passed and the next one is looked at
} parquet_slot;

typedef struct parquet_pages parquet_pages; // single owner
// `file` and `column` outlive it.
parquet_pages *parquet_pages_new(const parquet_file *file, const parquet_column *column);
void parquet_pages_free(parquet_pages *pages);
// Returns the current slot; repeated calls return the same one. *there false: there are no more.
DRV_CHECKED drv_status parquet_pages_peek(parquet_pages *pages, parquet_slot *out, bool *there);
void parquet_pages_pass(parquet_pages *pages);           // the slot that was looked at
int64_t parquet_pages_where(const parquet_pages *pages); // bytes of the file that were passed
