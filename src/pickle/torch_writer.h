// Archives as torch.save writes them (a zip without compression: torch/csrc/serialize,
// caffe2/serialize/inline_container.cc), put out piece by piece, so that a tensor of any size needs
// no memory. The caller writes what is added to `out` and empties it.
#pragma once
#include <stdint.h>

#include "base/str.h"

typedef struct torch_archive {
    str central; // the zip's directory
    int n;       // records so far
    uint64_t at; // bytes put out so far
    uint64_t data_bytes, data_at;
    uint32_t crc; // of the data so far
} torch_archive;

// A tensor of at most 8 dimensions: everything up to its data, which follow row by row. `storage`:
// torch's class for its type, as "BFloat16Storage".
void torch_tensor_begin(torch_archive *t, str *out, const char *storage, const int64_t *dim,
        int n_dims, int64_t element_bytes);
// Notes data that the caller writes.
void torch_tensor_data(torch_archive *t, const void *p, size_t n);
// Everything after the data.
void torch_tensor_end(torch_archive *t, str *out);

// A whole archive of an object without tensors.
void torch_object(str *out, const str *pickle);
