// Reads tensors of a torch file: those whose elements lie in order from their place, others through
// a map of the file.
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bus_error.h"
#include "base/file.h"
#include "pickle/torch_tensor_internal.h"

typedef struct gathering {
    const torch_tensor *t;
    const unsigned char *from; // its first element
    int64_t first, n;
    unsigned char *out;
} gathering;

static void copy_element(unsigned char *out, const unsigned char *from, int bytes) {
    switch (bytes) {
    case 1:
        *out = *from;
        break;
    case 2:
        memcpy(out, from, 2);
        break;
    case 4:
        memcpy(out, from, 4);
        break;
    default:
        memcpy(out, from, 8);
    }
}

// Copies part of one row, which is what lies along the last dimension.
static void copy_row(const torch_tensor *t, const unsigned char *from, int64_t n,
        unsigned char *out) {
    const int64_t bytes = t->type->bytes, step = t->stride[t->n_dims - 1] * bytes;
    if (step == bytes) {
        memcpy(out, from, (size_t)(n * bytes));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        copy_element(out + i * bytes, from + i * step, t->type->bytes);
}

static drv_status gather(void *ctx) {
    const gathering *g = ctx;
    const torch_tensor *t = g->t;
    const int64_t cols = t->dim[t->n_dims - 1], bytes = t->type->bytes;
    for (int64_t done = 0; done < g->n;) {
        const int64_t element = g->first + done, col = element % cols;
        int64_t row = element / cols, at = col * t->stride[t->n_dims - 1];
        for (int i = t->n_dims - 2; i >= 0; i--) {
            at += row % t->dim[i] * t->stride[i];
            row /= t->dim[i];
        }
        const int64_t n = g->n - done < cols - col ? g->n - done : cols - col;
        copy_row(t, g->from + at * bytes, n, g->out + done * bytes);
        done += n;
    }
    return DRV_OK;
}

drv_status torch_map(const torch_file *f, unsigned char **map) {
    void *p =
            mmap(NULL, (size_t)(f->part.base + f->part.size), PROT_READ, MAP_SHARED, f->part.fd, 0);
    if (p == MAP_FAILED) return file_fail("map", f->part.path);
    *map = p;
    return DRV_OK;
}

drv_status torch_read(const torch_file *f, const torch_tensor *t, int64_t first, int64_t n,
        void *out) {
    DRV_ASSERT(first >= 0 && n >= 0 && first <= t->elements - n, "elements of \"%s\"", t->name);
    const int64_t bytes = t->type->bytes;
    gathering g = {.t = t, .first = first, .n = n, .out = out};
    if (t->contiguous || n == 0)
        return file_part_read(&f->part, t->offset + first * bytes, n * bytes, out);
    if (f->part.fd < 0) {
        g.from = f->part.memory + f->part.base + t->offset;
        return gather(&g);
    }
    unsigned char *map = f->map;
    if (!map) DRV_TRY(torch_map(f, &map));
    g.from = map + f->part.base + t->offset;
    const drv_status status = bus_error_guard(gather, &g, f->part.path);
    if (!f->map) munmap(map, (size_t)(f->part.base + f->part.size));
    return status;
}

double torch_number(const torch_type *type, const void *element) {
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
    } value;
    if (type->bytes > (int)sizeof value) return (double)NAN;
    memcpy(&value, element, (size_t)type->bytes);
    if (strcmp(type->name, "float32") == 0) return (double)value.f32;
    if (strcmp(type->name, "float64") == 0) return value.f64;
    if (strcmp(type->name, "int32") == 0) return (double)value.i32;
    if (strcmp(type->name, "int64") == 0) return (double)value.i64;
    return (double)NAN;
}
