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

enum parquet_type { // Type of parquet.thrift
    PARQUET_BOOLEAN = 0,
    PARQUET_INT32 = 1,
    PARQUET_INT64 = 2,
    PARQUET_FLOAT = 4,
    PARQUET_DOUBLE = 5,
    PARQUET_BYTE_ARRAY = 6
};

// The values of a leaf, by its physical type and what that stands for.
typedef enum parquet_kind {
    PARQUET_UNREAD, // decimals, dates, times, bytes of one length; or no leaf
    PARQUET_TEXT,   // byte strings
    PARQUET_BOOL,
    PARQUET_INT,
    PARQUET_UINT,
    PARQUET_REAL
} parquet_kind;

typedef struct parquet_node {
    const char *name;
    int parent;  // -1: it is the root
    int n_nodes; // of its subtree, itself included: the next sibling is so far away
    int n_children;
    int leaf; // its number among the leaves; -1: it has children
    int type; // of a leaf: a parquet_type, or any number
    parquet_kind kind;
    bool optional, repeated;
    bool is_list, is_map;       // what its children stand for
    int definition, repetition; // levels where it is there; of its elements, if it is repeated
} parquet_node;

typedef struct parquet_schema {
    parquet_node *nodes; // parents before children; the first one is the root
    int n;
} parquet_schema;

// Reads the list of the footer. DRV_E_DATA: it is not a tree.
DRV_CHECKED drv_status parquet_read_schema(arena *a, const parquet_file *file, thrift *in,
        parquet_schema *out);
// Adds the names from the root on with dots between them.
void parquet_add_path(const parquet_schema *schema, const parquet_node *node, str *out);
// Finds the text column of this path that does not repeat. DRV_E_DATA: there is none; the message
// lists those that are.
DRV_CHECKED drv_status parquet_find_text(const parquet_file *file, const parquet_schema *schema,
        const char *path, const parquet_node **out);
