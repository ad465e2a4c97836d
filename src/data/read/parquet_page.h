// A page of a Parquet column of byte strings or numbers: levels, dictionary indexes and the
// encodings of values (parquet-format, Encodings.md and README.md).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct byte_array { // not owned
    const unsigned char *p;
    uint32_t n;
} byte_array;

typedef struct page_values {
    byte_array *v; // the values that are not null, in order
    int64_t n, cap;
    unsigned char *joined; // buffer in which prefixes and suffixes are joined
    size_t cap_joined;
} page_values;
void page_values_free(page_values *v);

typedef enum parquet_codec { // CompressionCodec of parquet.thrift
    CODEC_NONE = 0,
    CODEC_SNAPPY = 1,
    CODEC_GZIP = 2,
    CODEC_LZO = 3,
    CODEC_BROTLI = 4,
    CODEC_LZ4_HADOOP = 5,
    CODEC_ZSTD = 6,
    CODEC_LZ4_RAW = 7
} parquet_codec;

enum { // Encoding of parquet.thrift
    PARQUET_PLAIN = 0,
    PARQUET_PLAIN_DICTIONARY = 2,
    PARQUET_RLE = 3,
    PARQUET_BIT_PACKED = 4,
    PARQUET_DELTA_BINARY = 5,
    PARQUET_DELTA_LENGTH = 6,
    PARQUET_DELTA_BYTE_ARRAY = 7,
    PARQUET_RLE_DICTIONARY = 8,
    PARQUET_BYTE_STREAM_SPLIT = 9
};

// Returns the reason if a page of this codec cannot be decompressed on this machine, else NULL.
const char *page_lacks(int codec);
// Decompresses n_packed bytes into exactly n_out. `codec` comes from the file, so it may be any
// number. Returns what is wrong, or NULL.
const char *page_unpack(int codec, const unsigned char *packed, size_t n_packed, unsigned char *out,
        size_t n_out);

// Decodes n_out values of `bits` bits from Parquet's hybrid of run-length encoding and bit packing.
// Returns false if the bytes end too early.
bool page_hybrid(const unsigned char *coded, size_t n_coded, int bits, uint32_t *out,
        int64_t n_out);

// Appends n_values values in `encoding`, which is not a dictionary encoding. They point into
// `bytes` or into out->joined. Returns what is wrong, or NULL.
const char *page_byte_arrays(int encoding, const unsigned char *bytes, size_t n_bytes,
        int64_t n_values, page_values *out);
// Does the same for numbers of a parquet_type: each value is its little-endian bytes; a boolean is
// one byte.
const char *page_numbers(int type, int encoding, const unsigned char *bytes, size_t n_bytes,
        int64_t n_values, page_values *out);
