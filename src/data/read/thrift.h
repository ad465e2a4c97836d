// Thrift's compact protocol as Parquet uses it (thrift/doc/specs/thrift-compact-protocol.md). The
// bytes are untrusted: every read is checked, and after the first bad one all others return zero.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum thrift_type {
    THRIFT_STOP,
    THRIFT_TRUE,
    THRIFT_FALSE,
    THRIFT_I8,
    THRIFT_I16,
    THRIFT_I32,
    THRIFT_I64,
    THRIFT_DOUBLE,
    THRIFT_BINARY,
    THRIFT_LIST,
    THRIFT_SET,
    THRIFT_MAP,
    THRIFT_STRUCT,
} thrift_type;

typedef struct thrift {
    const unsigned char *p, *end;
    bool bad;
} thrift;

typedef struct thrift_field {
    int id;
    thrift_type type;
} thrift_field;

// Moves to the next field of a struct; returns false at its end. Start with {0}; read or skip each
// value.
bool thrift_next(thrift *in, thrift_field *field);
int64_t thrift_int(thrift *in); // i8 to i64
uint64_t thrift_varint(thrift *in);
const char *thrift_bytes(thrift *in, size_t *n);
int64_t thrift_list(thrift *in, thrift_type *element); // number of elements
void thrift_skip(thrift *in, thrift_type type);
