// The footer of a Parquet file: where the pages of one column lie. And what both parts of the
// reader share.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct parquet_file {
    const char *path;
    int fd;
    int64_t size;
} parquet_file;

// n bytes at `at`. DRV_E_IO: they could not be read.
DRV_CHECKED drv_status parquet_read_at(const parquet_file *file, int64_t at, void *p, size_t n);
// The failure of what lies at a byte of the file.
drv_status parquet_broken(const parquet_file *file, int64_t at, const char *why);

typedef struct parquet_chunk { // the column in one row group
    int64_t from, bytes, values;
    int codec; // parquet_codec, or any number
} parquet_chunk;

typedef struct parquet_column {
    const char *name;   // or the names on its path with dots between them
    int leaf;           // number among the leaves
    int max_definition; // definition level of a value; 0: no value is null
    parquet_chunk *chunks;
    int n_chunks;
} parquet_column;

// Finds `name`; results live in `mem`. DRV_E_DATA: no such column, no strings in it, or a broken
// footer.
DRV_CHECKED drv_status parquet_read_footer(arena *mem, const parquet_file *file, const char *name,
        parquet_column *out);
