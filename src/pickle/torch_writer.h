// Archives as torch.save writes them (a zip without compression: torch/csrc/serialize,
// caffe2/serialize/inline_container.cc), piece by piece, so that a tensor of any size needs no
// memory. The caller writes the bytes that are appended to `out` and clears it.
#pragma once
#include <stdint.h>

#include "base/str.h"

typedef struct torch_archive {
    str central; // the zip's directory
    int n;       // records so far
    uint64_t at; // bytes appended so far
    uint64_t data_bytes, data_at;
    uint32_t crc; // of the data so far
} torch_archive;

// Appends everything that precedes the data of a tensor of at most 8 dimensions; the data follow
// row by row. `storage`: torch's class for its type, such as "BFloat16Storage".
void torch_tensor_begin(torch_archive *t, str *out, const char *storage, const int64_t *dim,
        int n_dims, int64_t element_bytes);
// Adds data that the caller writes to the checksum.
void torch_tensor_data(torch_archive *t, const void *p, size_t n);
// Appends everything that follows the data.
void torch_tensor_end(torch_archive *t, str *out);

// Appends a whole archive of an object without tensors.
void torch_object(str *out, const str *pickle);
