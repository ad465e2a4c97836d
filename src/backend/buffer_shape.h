// The type and dims of a dense, row-major array on a device.
#pragma once
#include <stdint.h>

#include "base/dtype.h"

enum { BUFFER_MAX_DIMS = 4 }; // those of a tensor, and one for micro-batches

typedef struct buffer_shape {
    dtype dt;
    int n_dims;
    int64_t dim[BUFFER_MAX_DIMS];
} buffer_shape;

static inline int64_t buffer_bytes(const buffer_shape *s) {
    int64_t bytes = dtype_bytes(s->dt);
    for (int i = 0; i < s->n_dims; i++)
        bytes *= s->dim[i];
    return bytes;
}
