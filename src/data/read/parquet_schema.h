// The schema of a Parquet file: the tree of its columns, and which of them may be missing or
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

// Reads n bytes at offset `at`. DRV_E_IO: they cannot be read.
DRV_CHECKED drv_status parquet_read_at(const parquet_file *file, int64_t at, void *p, size_t n);
// Returns the error for broken content at offset `at` of the file.
drv_status parquet_broken(const parquet_file *file, int64_t at, const char *why);

enum parquet_type { // Type of parquet.thrift
    PARQUET_BOOLEAN = 0,
    PARQUET_INT32 = 1,
    PARQUET_INT64 = 2,
    PARQUET_FLOAT = 4,
    PARQUET_DOUBLE = 5,
    PARQUET_BYTE_ARRAY = 6
};

// The kind of values in a leaf, by its physical and logical type.
typedef enum parquet_kind {
    PARQUET_UNREAD, // decimals, dates, times, fixed-length bytes; or not a leaf
    PARQUET_TEXT,   // byte strings
    PARQUET_BOOL,
    PARQUET_INT,
    PARQUET_UINT,
    PARQUET_REAL
} parquet_kind;

typedef struct parquet_node {
    const char *name;
    int parent;  // -1: it is the root
    int n_nodes; // of its subtree, itself included: the distance to its next sibling
    int n_children;
    int leaf; // its index among the leaves; -1: it has children
    int type; // of a leaf: a parquet_type, or any number
    parquet_kind kind;
    bool optional, repeated;
    bool is_list, is_map;       // its children are the elements of a list, or the entries of a map
    int definition, repetition; // the levels of a value, or of an element if it is repeated
} parquet_node;

typedef struct parquet_schema {
    parquet_node *nodes; // parents before children; the first one is the root
    int n;
} parquet_schema;

// Reads the schema elements of the footer. DRV_E_DATA: they do not form a tree.
DRV_CHECKED drv_status parquet_read_schema(arena *a, const parquet_file *file, thrift *in,
        parquet_schema *out);
// Appends the node's dotted path.
void parquet_add_path(const parquet_schema *schema, const parquet_node *node, str *out);
// Appends the quoted paths of the first text columns that are not repeated, or of all top-level
// columns.
void parquet_name_columns(const parquet_schema *schema, bool all, str *out);
// Returns the text column at this path, which is not repeated; NULL: there is none.
const parquet_node *parquet_find_text(const parquet_schema *schema, const char *path);
// Returns the error for a file without it, which lists the text columns. `ids`: a column of ids
// would do too.
drv_status parquet_no_text(const parquet_file *file, const parquet_schema *schema, const char *path,
        bool ids);
// Returns whether the only child of this repeated node is the element of a list, rather than the
// member of an element (LogicalTypes.md, "Backward-compatibility rules").
bool parquet_is_list_wrapper(const parquet_schema *schema, const parquet_node *node);
// Returns the top-level column of that name, or NULL, and sets *leaf to the node of its elements;
// NULL: it is not a list of values.
const parquet_node *parquet_find_list(const parquet_schema *schema, const char *name,
        const parquet_node **leaf);
