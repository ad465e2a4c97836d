// The footer of a Parquet file: its schema, and the offsets of the pages of its columns.
#pragma once
#include "data/read/parquet_schema.h"

typedef struct parquet_footer {
    parquet_schema schema;
    thrift row_groups; // not parsed yet; bytes in the arena
} parquet_footer;

typedef struct parquet_chunk { // a column chunk: the column in one row group
    int64_t from, bytes, values;
    int codec; // parquet_codec, or any number
} parquet_chunk;

typedef struct parquet_column {
    const char *name;   // or its dotted path
    int leaf;           // index among the leaves
    int type;           // a parquet_type
    int max_definition; // definition level of a value; 0: no value is null
    int max_repetition; // 0: one value in each row
    parquet_chunk *chunks;
    int n_chunks;
} parquet_column;

// Results live in `a`. DRV_E_DATA: a broken footer.
DRV_CHECKED drv_status parquet_read_footer(arena *a, const parquet_file *file, parquet_footer *out);
// Finds the column chunks of a leaf. DRV_E_DATA: its data is in another file, or it does not
// contain byte strings.
DRV_CHECKED drv_status parquet_place_column(arena *a, const parquet_file *file,
        const parquet_footer *footer, const parquet_node *leaf, parquet_column *out);
