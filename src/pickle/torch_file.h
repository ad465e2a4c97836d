// Files of torch.save (pytorch's torch/serialization.py), little-endian, in both forms:
//
//   a zip file      NAME/data.pkl, the pickle; NAME/byteorder; NAME/data/KEY, the storages
//   the older form  pickles of a magic number, a protocol number and facts of the machine, then
//                   the pickle, then one of the list of keys, then per key u64 elements and data
//
// A tensor in the pickle is a view: a storage, a first element, sizes and strides. It is read from
// its storage's offset in the file, and its elements are returned in row-major order.
#pragma once
#include "base/name_map.h"
#include "pickle/file_part.h"
#include "pickle/pickle.h"
#include "pickle/zip.h"

enum { MAX_TORCH_DIMS = 8 };

typedef struct torch_type {
    const char *storage; // the class of its storages in the pickle; NULL: torch has none
    const char *name;    // "bfloat16"
    const char *st_name; // in safetensors: "BF16"
    int bytes;           // of an element
} torch_type;

typedef struct torch_tensor {
    const char *name; // the keys that lead to it, joined by dots
    const torch_type *type;
    int n_dims;
    int64_t dim[MAX_TORCH_DIMS], stride[MAX_TORCH_DIMS], elements;
    int64_t offset;                    // of its first element, in the part
    int64_t storage_at, storage_bytes; // of its storage, in the part
    bool contiguous;                   // the elements are consecutive in the file
} torch_tensor;

typedef struct torch_file {
    file_part part;
    bool owns_fd;
    const pickle_value *root; // the saved object, or its part under opts.key
    const pickle_value *top;  // the saved object
    torch_tensor *tensors;    // below the root, in the order of the pickle
    int n;
    name_map by_name;
    name_map storages;  // by key
    char *bytes;        // of the pickle; owned
    unsigned char *map; // of the file, if a tensor of the list is not contiguous; else NULL
} torch_file;

typedef struct torch_opts {
    const char *key;               // the keys, joined by dots, that lead to the root; NULL: the top
    const pickle_name *more_names; // allowed in addition to torch_names; a name of NULL ends them
    int64_t max_values;            // of the pickle; 0: pickle_read's
} torch_opts;

// The names that files of torch.save need: tensors, storages, dtypes and plain containers.
extern const pickle_name torch_names[];

// Opens a file; `opts` may be NULL. DRV_E_DATA: it is invalid; the message says what is wrong, and
// where. The caller closes the file; the rest lives in `a`.
DRV_CHECKED drv_status torch_open(arena *a, const char *path, const torch_opts *opts,
        torch_file *out);
// The same for a part of an open file (or of memory), which the caller closes afterwards.
DRV_CHECKED drv_status torch_open_part(arena *a, const file_part *part, const torch_opts *opts,
        torch_file *out);
void torch_close(torch_file *f);
// Returns whether a file begins as one of torch.save does; false also when it cannot be read.
bool torch_is_file(const char *path);

// Returns whether a file's name ends as those of torch.save do: .bin, .pt, .pth, .ckpt.
bool torch_is_called_so(const char *path);

const torch_tensor *torch_find(const torch_file *f, const char *name); // NULL: absent
// Reads a value of the pickle as a tensor; *is_tensor is false, and *out untouched, when it is
// something else.
DRV_CHECKED drv_status torch_tensor_of(const torch_file *f, const pickle_value *v,
        torch_tensor *out, bool *is_tensor);
// Reads elements [first, first + n) in row-major order without conversion. DRV_E_IO: the file has
// been truncated.
DRV_CHECKED drv_status torch_read(const torch_file *f, const torch_tensor *t, int64_t first,
        int64_t n, void *out);
// Returns a stored element as a number; NaN: its type is not float32, float64, int32 or int64.
double torch_number(const torch_type *type, const void *element);
// Returns the type that torch calls `name` ("float32"); NULL: none that is read.
const torch_type *torch_type_of(const char *name);
