// The schema of an Arrow IPC stream: the tree of its columns, and which buffers of a record batch
// belong to each (arrow.apache.org/docs/format/Columnar.html; Schema.fbs, Message.fbs).
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "data/read/flatbuffer.h"

// The column types that drover reads. It skips columns of other types.
typedef enum arrow_type {
    ARROW_OTHER,
    ARROW_NULL, // all values are null; it has no buffer
    ARROW_BOOL, // one bit for each value
    ARROW_INT,
    ARROW_REAL,       // of single and double precision
    ARROW_TEXT,       // Utf8, Binary, their large forms, views, dictionaries of plain ones
    ARROW_LIST,       // List, LargeList
    ARROW_FIXED_LIST, // FixedSizeList
    ARROW_STRUCT
} arrow_type;

typedef enum arrow_coding { // of ARROW_TEXT
    ARROW_PLAIN,
    ARROW_VIEWS,     // a value is stored in its view if it is short, else in a data buffer that the
                     // view names
    ARROW_DICTIONARY // each value is an index into a dictionary, which is sent in messages of its own
} arrow_coding;

typedef struct arrow_field { // in preorder: a field, then all below it
    const char *name;        // as in the file, without control characters
    const char *words;       // its type, for messages: "lists"
    arrow_type type;
    arrow_coding coding;
    int width; // ARROW_INT, ARROW_REAL: bytes of a number; ARROW_TEXT, ARROW_LIST: of an offset
    bool is_signed;     // ARROW_INT
    int index_width;    // ARROW_DICTIONARY: bytes of an index
    bool index_signed;  // ARROW_DICTIONARY
    int64_t dictionary; // ARROW_DICTIONARY: its id in the stream
    int64_t list_size;  // ARROW_FIXED_LIST
    int n_fields;       // fields of its subtree, itself included
    int n_children;
    int node;   // its index among the nodes of a batch
    int buffer; // the index of its first buffer in a batch, not counting the data buffers of views
    bool has_views; // it has data buffers of views too; each batch says how many
} arrow_field;

typedef struct arrow_schema {
    arrow_field *fields; // in the arena; [0] is the row itself and has no node
    int n;
    int n_nodes, n_buffers; // in a batch, not counting the data buffers of views
    int n_views;            // fields that have data buffers of views
} arrow_schema;

// Reads the schema message whose header is the table `header`. DRV_E_DATA names `path`.
DRV_CHECKED drv_status arrow_read_schema(arena *a, const char *path, flatbuffer *message,
        size_t header, arrow_schema *out);
// Returns the top-level column of that name; -1: none.
int arrow_find(const arrow_schema *schema, const char *name);
