// Reads tables of FlatBuffers in place (flatbuffers.dev, "Internals"), and checks every offset
// before it follows it. A position is an offset into the bytes; 0 means that a field is absent,
// since no field is stored at offset 0.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct flatbuffer { // bytes of the caller
    const unsigned char *p;
    size_t n;
    bool broken; // an offset or a length was out of range, so values read since then are meaningless
} flatbuffer;

typedef struct fb_vector {
    size_t at; // of the first element
    int64_t n; // 0: empty or absent
} fb_vector;

size_t fb_root(flatbuffer *buffer);
// Returns the table that field `id` of a table points to.
size_t fb_table(flatbuffer *buffer, size_t table, int id);
// Returns an integer of `bytes` bytes (1, 2, 4, 8), two's complement; `otherwise` if the field is
// absent.
int64_t fb_int(flatbuffer *buffer, size_t table, int id, int bytes, int64_t otherwise);
// Returns a vector of elements of `bytes` bytes each.
fb_vector fb_elements(flatbuffer *buffer, size_t table, int id, size_t bytes);
// Table i of a vector of tables (elements of 4 bytes).
size_t fb_table_of(flatbuffer *buffer, const fb_vector *v, int64_t i);
// Returns the little-endian two's-complement integer at a position that has been checked.
int64_t fb_number_at(const flatbuffer *buffer, size_t at, int bytes);
