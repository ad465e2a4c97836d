// An Arrow IPC stream in a file (arrow.apache.org/docs/format/Columnar.html, "IPC Streaming
// Format"): a schema, then record batches. A file in the "File Format" is such a stream after eight
// bytes. Of a batch only the buffers that are asked for are read, and unpacked (LZ4 frame, zstd).
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "data/read/arrow_schema.h"

typedef struct arrow_stream arrow_stream; // single owner

typedef struct arrow_buffer { // bytes that the caller keeps from batch to batch; zeros: none yet
    unsigned char *p;
    size_t n, cap;
} arrow_buffer;

typedef struct arrow_node { // a column in the batch at hand
    int64_t length, nulls;
} arrow_node;

// DRV_E_DATA: no stream, or a schema that is not read.
DRV_CHECKED drv_status arrow_stream_open(arena *a, const char *path, arrow_stream **out);
void arrow_stream_close(arrow_stream *stream);
const arrow_schema *arrow_stream_schema(const arrow_stream *stream);
typedef struct arrow_batch {
    int64_t rows;
    bool is_dictionary; // its rows are all values of `dictionary`, in one column
    int64_t dictionary;
    bool is_delta; // they come after the values that the dictionary has
} arrow_batch;

// Goes to the next record batch, or batch of a dictionary that a column of the schema has. *more
// false: there is none.
DRV_CHECKED drv_status arrow_stream_next(arrow_stream *stream, arrow_batch *batch, bool *more);
// DRV_E_DATA: a length below zero.
DRV_CHECKED drv_status arrow_stream_node(const arrow_stream *stream, int node, arrow_node *out);
// Returns the number of a field's first buffer in the batch; *n_further: how many it has beside
// those that the schema knows of.
int arrow_stream_first_buffer(const arrow_stream *stream, int field, int *n_further);
// Buffer `number` of the batch, whole.
DRV_CHECKED drv_status arrow_stream_buffer(const arrow_stream *stream, int number,
        arrow_buffer *out);
int64_t arrow_stream_batch(const arrow_stream *stream); // number of the batch at hand, from 1
int64_t arrow_stream_where(const arrow_stream *stream); // bytes of the file that were passed
