// Reads tables of FlatBuffers in place (flatbuffers.dev, "Internals"), and checks every offset
// before it follows it. A position is an offset into the bytes; 0 stands for an absent field, since
// no field is at the beginning.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct flatbuffer { // bytes of the caller
    const unsigned char *p;
    size_t n;
    bool broken; // an offset or a length was out of range: values read since are meaningless
} flatbuffer;

typedef struct fb_vector {
    size_t at; // of the first element
    int64_t n; // 0: empty, or not there
} fb_vector;

size_t fb_root(flatbuffer *buffer);
// Returns the table that field `id` of a table points to.
size_t fb_table(flatbuffer *buffer, size_t table, int id);
// Returns a number of `bytes` (1, 2, 4, 8), two's complement; `otherwise`: the field is not there.
int64_t fb_int(flatbuffer *buffer, size_t table, int id, int bytes, int64_t otherwise);
// Returns a vector whose elements are `bytes` long each.
fb_vector fb_elements(flatbuffer *buffer, size_t table, int id, size_t bytes);
// Table i of a vector of tables (elements of 4 bytes).
size_t fb_table_of(flatbuffer *buffer, const fb_vector *v, int64_t i);
// Little-endian, two's complement, at a position that has been checked.
int64_t fb_number_at(const flatbuffer *buffer, size_t at, int bytes);
