// safetensors files (github.com/huggingface/safetensors, README "Format"): u64 header length, JSON
// header, data. The reader checks every offset before use and refuses what the reference reader
// refuses: gaps, overlaps and bytes after the last tensor, and metadata that is not text.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/name_map.h"
#include "base/status.h"
#include "base/str.h"

enum { MAX_ST_DIMS = 8 };
// The types that drover computes with; a zeroed entry is written as F32.
typedef enum st_type { ST_F32, ST_F64, ST_F16, ST_BF16, ST_OTHER } st_type;
const char *st_type_name(st_type t); // "BF16"; not for ST_OTHER
int64_t st_type_bytes(st_type t);    // of an element; not for ST_OTHER
// Parses "bf16", "f16", "f32", as options spell them; also "fp16" and "fp32", as configs do.
bool st_type_of(const char *name, st_type *out);
// Converts n elements of F16 or BF16 to fp32. `halves` may be the second half of `out`.
void st_widen(st_type type, const void *halves, int64_t n, float *out);

typedef struct st_tensor {
    const char *name;
    const char *type_name; // as in the file
    st_type type;
    int n_dims;
    int64_t dim[MAX_ST_DIMS], elements;
    int64_t offset, bytes; // in the data of the file
} st_tensor;

// Read by pread, not mapped: so a file may be larger than memory or the limit of address space, and
// a file that is truncated meanwhile causes an error instead of a signal. Immutable after opening.
typedef struct st_file {
    const char *path;
    int fd;                      // -1: the bytes are in `memory`
    const unsigned char *memory; // not owned
    int64_t data_at;             // where the data begins
    st_tensor *tensors;          // in the order of their data
    int n;
    name_map by_name;
} st_file;

DRV_CHECKED drv_status st_open(arena *a, const char *path, st_file *out);
// The same for bytes in memory, which must outlive the result.
DRV_CHECKED drv_status st_parse(arena *a, const char *path, const void *p, size_t n, st_file *out);
void st_close(st_file *f);
const st_tensor *st_find(const st_file *f, const char *name); // NULL: absent
// Reads bytes [first, first + n) of a tensor. DRV_E_IO: the file has been truncated.
DRV_CHECKED drv_status st_read_raw(const st_file *f, const st_tensor *t, int64_t first, int64_t n,
        void *out);
// Reads elements [first, first + n) as fp32. DRV_E_DATA: the type is not floating point.
DRV_CHECKED drv_status st_read_f32(const st_file *f, const st_tensor *t, int64_t first, int64_t n,
        float *out);

// A tensor of a file to write; st_header makes the file's header, length field included.
typedef struct st_entry {
    const char *name;
    int n_dims;
    int64_t dim[2];
    st_type type;
} st_entry;
void st_header(const st_entry *entries, int n_entries, str *out);
int64_t st_entry_elements(const st_entry *e);
int64_t st_entry_bytes(const st_entry *e);
// Rounds to nearest even into `out` (n elements of `type`: F32, F16 or BF16), which may be
// `values`. DRV_E_DATA: the type cannot represent a value; the message names the tensor.
DRV_CHECKED drv_status tensor_round(const char *name, st_type type, const float *values, int64_t n,
        void *out);
