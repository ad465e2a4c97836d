// An Arrow IPC stream in a file (arrow.apache.org/docs/format/Columnar.html, "IPC Streaming
// Format"): a schema, then record batches. A file in the "File Format" contains such a stream after
// its first eight bytes. Of a batch only the requested buffers are read and decompressed (LZ4
// frame, zstd).
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "data/read/arrow_schema.h"

typedef struct arrow_stream arrow_stream; // single owner

typedef struct arrow_buffer { // memory that the caller reuses for the next batches; zeros: none yet
    unsigned char *p;
    size_t n, cap;
} arrow_buffer;

typedef struct arrow_node { // a column of the current batch
    int64_t length, nulls;
} arrow_node;

// DRV_E_DATA: not an Arrow stream, or a schema that drover cannot read.
DRV_CHECKED drv_status arrow_stream_open(arena *a, const char *path, arrow_stream **out);
void arrow_stream_close(arrow_stream *stream);
const arrow_schema *arrow_stream_schema(const arrow_stream *stream);
typedef struct arrow_batch {
    int64_t rows;
    bool is_dictionary; // it is one column with the values of `dictionary`
    int64_t dictionary;
    bool is_delta; // they are appended to the existing values of the dictionary
} arrow_batch;

// Moves to the next record batch, or to the next dictionary batch that a column of the schema uses.
// *more is set to false after the last one.
DRV_CHECKED drv_status arrow_stream_next(arrow_stream *stream, arrow_batch *batch, bool *more);
// DRV_E_DATA: the node has a negative length.
DRV_CHECKED drv_status arrow_stream_node(const arrow_stream *stream, int node, arrow_node *out);
// Returns the index of a field's first buffer in the batch, and sets *n_further to the number of
// its data buffers of views.
int arrow_stream_first_buffer(const arrow_stream *stream, int field, int *n_further);
// Reads buffer `number` of the batch as a whole.
DRV_CHECKED drv_status arrow_stream_buffer(const arrow_stream *stream, int number,
        arrow_buffer *out);
int64_t arrow_stream_batch(const arrow_stream *stream); // number of the current batch, from 1
int64_t arrow_stream_where(const arrow_stream *stream); // bytes of the file read so far
