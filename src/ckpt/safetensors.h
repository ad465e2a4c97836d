// safetensors files (github.com/huggingface/safetensors, README "Format"): u64 header length, JSON
// header, data. The reader
// checks every offset before use and refuses what the reference reader refuses: gaps, overlaps and
// bytes behind the last tensor, and metadata that is not text.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "base/status.h"

enum { MAX_ST_DIMS = 8 };
typedef enum st_type { ST_F64, ST_F32, ST_F16, ST_BF16, ST_OTHER } st_type;

typedef struct st_tensor {
    const char *name;
    const char *type_name; // as in the file
    st_type type;
    int n_dims;
    int64_t dim[MAX_ST_DIMS], elements;
    const unsigned char *data; // into the map
    int64_t bytes;
} st_tensor;

typedef struct st_file { // immutable after opening
    const char *path;
    file_map map;
    st_tensor *tensors; // in the order of their data
    int n;
} st_file;

DRV_CHECKED drv_status st_open(arena *a, const char *path, st_file *out);
// The same for bytes in memory, which must outlive the result.
DRV_CHECKED drv_status st_parse(arena *a, const char *path, const void *p, size_t n, st_file *out);
void st_close(st_file *f);
void st_forget(const st_file *f); // gives back the pages that reading brought in
const st_tensor *st_find(const st_file *f, const char *name); // NULL: absent
// Elements [first, first + n) as fp32. DRV_E_DATA: the type is not floating point.
DRV_CHECKED drv_status st_read_f32(const st_file *f, const st_tensor *t, int64_t first, int64_t n,
        float *out);

// The header of a file that will hold fp32 tensors one after the other, length field included.
typedef struct st_entry {
    const char *name;
    int n_dims;
    int64_t dim[2];
} st_entry;
void st_header(const st_entry *e, int n, str *out);
int64_t st_entry_elements(const st_entry *e);
