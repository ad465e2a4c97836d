// Builds the header of a GGUF file.
#include "gguf/gguf_builder.h"

#include <string.h>

static void put_u32(str *s, uint32_t x) {
    str_add(s, &x, 4);
}

static void put_u64(str *s, uint64_t x) {
    str_add(s, &x, 8);
}

static void put_name(str *s, const char *p, size_t n) {
    put_u64(s, n);
    str_add(s, p, n);
}

static void put_key(gguf_builder *b, const char *key, gguf_type type) {
    put_name(&b->values, key, strlen(key));
    put_u32(&b->values, type);
    b->n_values++;
}

void gguf_put_u32(gguf_builder *b, const char *key, uint32_t x) {
    put_key(b, key, GGUF_U32);
    put_u32(&b->values, x);
}

void gguf_put_i32(gguf_builder *b, const char *key, int32_t x) {
    put_key(b, key, GGUF_I32);
    str_add(&b->values, &x, 4);
}

void gguf_put_f32(gguf_builder *b, const char *key, float x) {
    put_key(b, key, GGUF_F32);
    str_add(&b->values, &x, 4);
}

void gguf_put_bool(gguf_builder *b, const char *key, bool x) {
    const unsigned char byte = x;
    put_key(b, key, GGUF_BOOL);
    str_add(&b->values, &byte, 1);
}

void gguf_put_text(gguf_builder *b, const char *key, const char *text) {
    put_key(b, key, GGUF_TEXT);
    put_name(&b->values, text, strlen(text));
}

void gguf_put_array(gguf_builder *b, const char *key, gguf_type type, uint64_t n) {
    put_key(b, key, GGUF_ARRAY);
    put_u32(&b->values, type);
    put_u64(&b->values, n);
}

void gguf_add_text(gguf_builder *b, const char *p, size_t n) {
    put_name(&b->values, p, n);
}

int64_t gguf_padding(int64_t bytes) {
    return (GGUF_ALIGNMENT - bytes % GGUF_ALIGNMENT) % GGUF_ALIGNMENT;
}

int64_t gguf_put_tensor(gguf_builder *b, const char *name, quant_id type, const int64_t *dim,
        int n_dims) {
    const quant_type *t = quant_type_of(type);
    int64_t bytes = dim[0] / t->block * t->block_bytes;
    DRV_ASSERT(dim[0] % t->block == 0, "rows of \"%s\"", name);
    put_name(&b->tensors, name, strlen(name));
    put_u32(&b->tensors, (uint32_t)n_dims);
    for (int i = 0; i < n_dims; i++)
        put_u64(&b->tensors, (uint64_t)dim[i]);
    for (int i = 1; i < n_dims; i++)
        bytes *= dim[i];
    put_u32(&b->tensors, type);
    put_u64(&b->tensors, (uint64_t)b->data_bytes);
    b->data_bytes += bytes + gguf_padding(bytes);
    b->n_tensors++;
    return bytes;
}

void gguf_builder_header(const gguf_builder *b, str *out) {
    static const char zeros[GGUF_ALIGNMENT] = {0};
    const size_t begin = out->n;
    str_puts(out, "GGUF");
    put_u32(out, 3);
    put_u64(out, b->n_tensors);
    put_u64(out, b->n_values);
    str_add(out, b->values.p, b->values.n);
    str_add(out, b->tensors.p, b->tensors.n);
    str_add(out, zeros, (size_t)gguf_padding((int64_t)(out->n - begin)));
}

void gguf_builder_free(gguf_builder *b) {
    str_free(&b->values);
    str_free(&b->tensors);
    *b = (gguf_builder){0};
}
