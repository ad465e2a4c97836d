// The schema of a Parquet file: the tree of its columns, and where in it values may be missing or
// repeated (parquet-format: LogicalTypes.md; the levels are those of Dremel,
// doi.org/10.14778/1920841.1920886).
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "data/read/thrift.h"

typedef struct parquet_file {
    const char *path;
    int fd;
    int64_t size;
} parquet_file;

// n bytes at `at`. DRV_E_IO: they could not be read.
DRV_CHECKED drv_status parquet_read_at(const parquet_file *file, int64_t at, void *p, size_t n);
// Makes the failure of what lies at a byte of the file.
drv_status parquet_broken(const parquet_file *file, int64_t at, const char *why);

typedef struct parquet_node {
    const char *name;
    int parent;  // -1: it is the root
    int n_nodes; // of its subtree, itself included: the next sibling is so far away
    int n_children;
    int leaf;  // its number among the leaves; -1: it has children
    bool text; // a leaf of byte strings
    bool optional, repeated;
    bool is_list, is_map;       // what its children stand for
    int definition, repetition; // levels where it is there; of its elements, if it is repeated
} parquet_node;

typedef struct parquet_schema {
    parquet_node *nodes; // parents before children; the first one is the root
    int n;
} parquet_schema;

// Reads the list of the footer. DRV_E_DATA: it is no tree.
DRV_CHECKED drv_status parquet_read_schema(arena *a, const parquet_file *file, thrift *in,
        parquet_schema *out);
// Adds the names from the root on with dots between them.
void parquet_add_path(const parquet_schema *schema, const parquet_node *node, str *out);
// Finds the text column of this path that does not repeat. DRV_E_DATA: there is none; the message
// lists those that are.
DRV_CHECKED drv_status parquet_find_text(const parquet_file *file, const parquet_schema *schema,
        const char *path, const parquet_node **out);
