// The schema of an Arrow IPC stream: the tree of its columns, and which buffers of a record batch
// belong to each (arrow.apache.org/docs/format/Columnar.html; Schema.fbs, Message.fbs).
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "data/read/flatbuffer.h"

// The types of columns that are read. Columns of other types are passed over.
typedef enum arrow_type {
    ARROW_OTHER,
    ARROW_NULL, // of nulls alone, without a buffer
    ARROW_BOOL, // a bit each
    ARROW_INT,
    ARROW_REAL,       // of single and double precision
    ARROW_TEXT,       // Utf8, Binary, their large forms, views, dictionaries of plain ones
    ARROW_LIST,       // List, LargeList
    ARROW_FIXED_LIST, // FixedSizeList
    ARROW_STRUCT
} arrow_type;

typedef enum arrow_coding { // of ARROW_TEXT
    ARROW_PLAIN,
    ARROW_VIEWS,     // each value is short, or says in which further buffer it lies
    ARROW_DICTIONARY // each value is a number in a dictionary, which comes in messages of its own
} arrow_coding;

typedef struct arrow_field { // in preorder: a field, then all below it
    const char *name;        // bytes of the file, no control characters
    const char *words;       // its type, for messages: "lists"
    arrow_type type;
    arrow_coding coding;
    int width; // ARROW_INT, ARROW_REAL: bytes of a number; ARROW_TEXT, ARROW_LIST: of an offset
    bool is_signed;     // ARROW_INT
    int index_width;    // ARROW_DICTIONARY: bytes of a number in it
    bool index_signed;  // ARROW_DICTIONARY
    int64_t dictionary; // ARROW_DICTIONARY: its id in the stream
    int64_t list_size;  // ARROW_FIXED_LIST
    int n_fields;       // of the subtree, itself included
    int n_children;
    int node;   // its place among the nodes of a batch
    int buffer; // the place of its first buffer among those of a batch, buffers of views left out
    bool has_views; // it has further buffers in a batch, as many as that says
} arrow_field;

typedef struct arrow_schema {
    arrow_field *fields; // of the arena; [0] stands for the row and has no node
    int n;
    int n_nodes, n_buffers; // of a batch, buffers of views left out
    int n_views;            // fields that have further ones
} arrow_schema;

// `message`: that of a schema, whose header is the table `header`. DRV_E_DATA, with `path`.
DRV_CHECKED drv_status arrow_read_schema(arena *a, const char *path, flatbuffer *message,
        size_t header, arrow_schema *out);
// Returns the field of that name right below the row; -1: none.
int arrow_find(const arrow_schema *schema, const char *name);
