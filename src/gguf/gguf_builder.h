// Builds the header of a GGUF file (version 3) in memory: metadata and tensor list. The caller
// writes it to the file, then the data of the tensors in the order in which they were added, each
// padded with zeros to GGUF_ALIGNMENT.
#pragma once
#include "base/str.h"
#include "gguf/gguf.h"

enum { GGUF_ALIGNMENT = 32 };

typedef struct gguf_builder { // zero-initialise; gguf_builder_free when done
    str values, tensors;      // the bytes of the file
    uint64_t n_values, n_tensors;
    int64_t data_bytes; // of the tensors so far, padding included
} gguf_builder;

void gguf_put_u32(gguf_builder *b, const char *key, uint32_t x);
void gguf_put_i32(gguf_builder *b, const char *key, int32_t x);
void gguf_put_f32(gguf_builder *b, const char *key, float x);
void gguf_put_bool(gguf_builder *b, const char *key, bool x);
void gguf_put_text(gguf_builder *b, const char *key, const char *text);
// Begins an array of n elements, which the caller adds next: texts by gguf_add_text, numbers by
// str_add to `values`.
void gguf_put_array(gguf_builder *b, const char *key, gguf_type type, uint64_t n);
void gguf_add_text(gguf_builder *b, const char *p, size_t n);
// Adds a tensor to the list; dim[0] is contiguous, and a multiple of the type's block. Returns the
// bytes of its data, without padding.
int64_t gguf_put_tensor(gguf_builder *b, const char *name, quant_id type, const int64_t *dim,
        int n_dims);
// Appends the header, padded so that the data can follow.
void gguf_builder_header(const gguf_builder *b, str *out);
void gguf_builder_free(gguf_builder *b);
// Returns the bytes of padding after `bytes` of data.
int64_t gguf_padding(int64_t bytes);
