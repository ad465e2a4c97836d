// GGUF files (github.com/ggml-org/ggml, docs/gguf.md), versions 2 and 3, little-endian:
//
//   "GGUF", u32 version, u64 tensors, u64 values      the header
//   per value   text key, u32 type, bytes             the metadata: model, tokenizer, template
//   per tensor  text name, u32 dims, u64 dim..., u32 type, u64 offset
//   padding to general.alignment (32), then the data of the tensors in that order, each padded
//
// A text is its u64 length and its bytes. The reader checks everything before it is used, and
// refuses what ggml's own reader refuses: gaps and overlaps, doubled names, arrays of arrays.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/name_map.h"
#include "base/status.h"
#include "base/str.h"
#include "kernels/blocks/quants.h"

typedef enum gguf_type { // numbers of the format
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    N_GGUF_TYPES,
} gguf_type;
const char *gguf_type_name(gguf_type type); // "u32"
int gguf_type_bytes(gguf_type type);        // of an element; 0: texts and arrays vary

typedef struct gguf_value { // one entry of the metadata
    const char *key;
    gguf_type type; // of the value, or of each element of an array
    bool is_array;
    int64_t n;              // elements; 1 unless it is an array
    const unsigned char *p; // the first element, unaligned
} gguf_value;

typedef str_view gguf_text; // in the metadata

enum { MAX_GGUF_DIMS = 4 };

typedef struct gguf_tensor {
    const char *name;
    const quant_type *type;
    int n_dims;
    int64_t dim[MAX_GGUF_DIMS]; // dim[0] is contiguous: the columns of a matrix
    int64_t elements;
    int64_t offset, bytes; // in the file
} gguf_tensor;

// The metadata are held in memory; data are read by pread, so that a model may be larger than
// memory, and a file that shrinks is an error instead of a signal. Immutable after opening.
typedef struct gguf_file {
    const char *path;
    int fd;                      // -1: the file is in memory
    unsigned char *header;       // owned; NULL when the file is in memory
    const unsigned char *memory; // not owned
    int64_t size;                // bytes of the file
    gguf_value *values;
    gguf_tensor *tensors; // in the order of the file
    int n_values, n_tensors;
    name_map by_key, by_name;
} gguf_file;

// Reads the header of a file. DRV_E_DATA: it is invalid; the message says what is wrong, and where.
DRV_CHECKED drv_status gguf_open(arena *a, const char *path, gguf_file *out);
// Does the same for bytes in memory, which must outlive the result.
DRV_CHECKED drv_status gguf_parse(arena *a, const char *path, const void *p, size_t n,
        gguf_file *out);
void gguf_close(gguf_file *f);
// Returns whether the file begins as a GGUF file does; false also if it cannot be read.
bool gguf_is_gguf(const char *path);

const gguf_value *gguf_find(const gguf_file *f, const char *key);          // NULL: absent
const gguf_tensor *gguf_find_tensor(const gguf_file *f, const char *name); // NULL: absent

// Read values by key; leave *out as it is if the key is absent. DRV_E_DATA: the value has another
// type, or does not fit.
DRV_CHECKED drv_status gguf_get_i64(const gguf_file *f, const char *key, int64_t *out);
DRV_CHECKED drv_status gguf_get_f64(const gguf_file *f, const char *key, double *out);
DRV_CHECKED drv_status gguf_get_bool(const gguf_file *f, const char *key, bool *out);
// Returns the decimal from which an fp32 in the file was probably rounded: the shortest that rounds
// to it.
double gguf_meant(float x);
// Copies a text to `a`. DRV_E_DATA: it is not valid UTF-8, or has a NUL.
DRV_CHECKED drv_status gguf_get_text(arena *a, const gguf_file *f, const char *key,
        const char **out);
// Read arrays into `a`; *n = 0 if the key is absent. Texts are valid UTF-8, in the metadata.
DRV_CHECKED drv_status gguf_get_texts(arena *a, const gguf_file *f, const char *key,
        gguf_text **out, int64_t *n);
// Read a list of f32, or of i32.
DRV_CHECKED drv_status gguf_get_f32s(arena *a, const gguf_file *f, const char *key, float **out,
        int64_t *n);
DRV_CHECKED drv_status gguf_get_i32s(arena *a, const gguf_file *f, const char *key, int32_t **out,
        int64_t *n);

// Return a matrix's columns and rows; a vector is one row.
int64_t gguf_cols(const gguf_tensor *t);
int64_t gguf_rows(const gguf_tensor *t);
// Returns the bytes of a row.
int64_t gguf_row_bytes(const gguf_tensor *t);
// Reads rows [first, first + n) in the file's type. DRV_E_IO: the file has become shorter.
DRV_CHECKED drv_status gguf_read_raw(const gguf_file *f, const gguf_tensor *t, int64_t first,
        int64_t n, void *out);
// Reads them as fp32. DRV_E_DATA: drover does not read their type.
DRV_CHECKED drv_status gguf_read_f32(const gguf_file *f, const gguf_tensor *t, int64_t first,
        int64_t n, float *out);
