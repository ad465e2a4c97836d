// The safetensors format: headers are checked in full before a byte of data is used.
#include "ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dtype.h"
#include "base/json.h"

static const struct {
    const char *name;
    st_type type;
    int bits; // of an element
} types[] = {{"F64", ST_F64, 64}, {"F32", ST_F32, 32}, {"F16", ST_F16, 16}, {"BF16", ST_BF16, 16},
        {"I64", ST_OTHER, 64}, {"I32", ST_OTHER, 32}, {"I16", ST_OTHER, 16}, {"I8", ST_OTHER, 8},
        {"U64", ST_OTHER, 64}, {"U32", ST_OTHER, 32}, {"U16", ST_OTHER, 16}, {"U8", ST_OTHER, 8},
        {"BOOL", ST_OTHER, 8}, {"F8_E4M3", ST_OTHER, 8}, {"F8_E5M2", ST_OTHER, 8},
        {"F8_E8M0", ST_OTHER, 8}, {"C64", ST_OTHER, 64}, {"F6_E2M3", ST_OTHER, 6},
        {"F6_E3M2", ST_OTHER, 6}, {"F4", ST_OTHER, 4}};
enum { N_TYPES = sizeof types / sizeof *types };
enum { MAX_HEADER = 100000000 }; // bytes, as the reference reader

static drv_status bad(const char *path, const char *name, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: tensor \"%.80s\": %s", path, name, what);
}

static drv_status parse_shape(const char *path, const json_t *shape, st_tensor *t) {
    if (!json_is_array(shape) || json_array_size(shape) > MAX_ST_DIMS)
        return bad(path, t->name, "shape is not a list of at most 8 numbers");
    t->n_dims = (int)json_array_size(shape);
    t->elements = 1;
    for (int i = 0; i < t->n_dims; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        t->dim[i] = json_is_integer(d) ? json_integer_value(d) : -1;
        if (t->dim[i] < 0 || __builtin_mul_overflow(t->elements, t->dim[i], &t->elements) ||
                t->elements > INT64_MAX / 64)
            return bad(path, t->name, "a dimension is negative or too large");
    }
    return DRV_OK;
}

static drv_status parse_tensor(const char *path, const json_t *v, const unsigned char *data,
        int64_t n_data, st_tensor *t) {
    const char *type = json_string_value(json_object_get(v, "dtype"));
    const json_t *o = json_object_get(v, "data_offsets");
    int k = 0;
    while (type && k < N_TYPES && strcmp(types[k].name, type) != 0)
        k++;
    if (!type || k == N_TYPES) return bad(path, t->name, "dtype is missing or unknown");
    t->type = types[k].type;
    t->type_name = types[k].name;
    DRV_TRY(parse_shape(path, json_object_get(v, "shape"), t));
    if (!json_is_array(o) || json_array_size(o) != 2 || !json_is_integer(json_array_get(o, 0)) ||
            !json_is_integer(json_array_get(o, 1)))
        return bad(path, t->name, "data_offsets are not two numbers");
    const int64_t from = json_integer_value(json_array_get(o, 0)),
                  to = json_integer_value(json_array_get(o, 1));
    if (from < 0 || to < from || to > n_data)
        return drv_fail(DRV_E_DATA,
                "%s: tensor \"%.80s\": bytes %lld to %lld, but the file has %lld; is it truncated?",
                path, t->name, (long long)from, (long long)to, (long long)n_data);
    if (t->elements * types[k].bits % 8 || to - from != t->elements * types[k].bits / 8)
        return bad(path, t->name, "data_offsets do not fit shape and dtype");
    t->data = data + from;
    t->bytes = to - from;
    return DRV_OK;
}

// __metadata__ maps text to text (or is null): what else it holds, other readers refuse.
static drv_status check_metadata(const char *path, const json_t *metadata) {
    const char *key;
    json_t *v;
    if (json_is_null(metadata)) return DRV_OK;
    if (!json_is_object(metadata))
        return drv_fail(DRV_E_DATA, "%s: __metadata__ is no JSON object", path);
    json_object_foreach((json_t *)(uintptr_t)metadata, key,
            v) if (!json_is_string(v)) return drv_fail(DRV_E_DATA,
            "%s: __metadata__: \"%.80s\" is no text", path, key);
    return DRV_OK;
}

static int by_data(const void *x, const void *y) {
    const st_tensor *a = x, *b = y;
    if (a->data != b->data) return a->data < b->data ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

// Every byte of the data belongs to exactly one tensor, as the reference reader demands
// (safetensors/src/tensor.rs, Metadata::validate): what lies in a gap would be carried unseen.
static drv_status check_cover(const char *path, const st_file *f, const unsigned char *data,
        int64_t n_data) {
    int64_t covered = 0;
    for (int i = 0; i < f->n; i++) {
        const st_tensor *t = &f->tensors[i];
        const int64_t begin = t->data - data;
        if (begin < covered) return bad(path, f->tensors[i - 1].name, "overlaps the next tensor");
        if (begin > covered)
            return drv_fail(DRV_E_DATA,
                    "%s: bytes %lld to %lld of the data, before tensor \"%.80s\", belong to none",
                    path, (long long)covered, (long long)begin, t->name);
        covered += t->bytes;
    }
    if (covered == n_data) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: %lld bytes behind the last tensor belong to none", path,
            (long long)(n_data - covered));
}

static drv_status parse_header(arena *a, const char *path, const json_t *root,
        const unsigned char *data, int64_t n_data, st_file *out) {
    if (!json_is_object(root))
        return drv_fail(DRV_E_DATA, "%s: the header is no JSON object", path);
    out->tensors = ARENA_ARRAY(a, st_tensor, json_object_size(root) + 1);
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)root, key, v) {
        if (strcmp(key, "__metadata__") == 0) {
            DRV_TRY(check_metadata(path, v));
            continue;
        }
        st_tensor *t = &out->tensors[out->n++];
        t->name = arena_strdup(a, key);
        DRV_TRY(parse_tensor(path, v, data, n_data, t));
    }
    if (out->n) qsort(out->tensors, (size_t)out->n, sizeof *out->tensors, by_data);
    return check_cover(path, out, data, n_data);
}

drv_status st_parse(arena *a, const char *path, const void *p, size_t n, st_file *out) {
    uint64_t n_header;
    *out = (st_file){.path = path};
    if (n < 8) return drv_fail(DRV_E_DATA, "%s: %zu bytes, too short for safetensors", path, n);
    memcpy(&n_header, p, 8);
    if (n_header > n - 8 || n_header > MAX_HEADER)
        return drv_fail(DRV_E_DATA, "%s: header length is %llu, but the file has %zu bytes", path,
                (unsigned long long)n_header, n);
    const char *header = (const char *)p + 8;
    json_t *root;
    DRV_TRY(json_read_bytes(path, header, (size_t)n_header, &root));
    drv_status status = parse_header(a, path, root, (const unsigned char *)header + n_header,
            (int64_t)(n - 8 - n_header), out);
    json_decref(root);
    return status;
}

drv_status st_open(arena *a, const char *path, st_file *out) {
    file_map m;
    DRV_TRY(file_map_open(path, &m));
    drv_status s = st_parse(a, arena_strdup(a, path), m.p, m.n, out);
    out->map = m;
    if (s != DRV_OK) st_close(out);
    return s;
}

void st_close(st_file *f) {
    file_map_close(&f->map);
    f->n = 0;
}

void st_forget(const st_file *f) {
    if (f->map.n) madvise((void *)(uintptr_t)f->map.p, f->map.n, MADV_DONTNEED);
}

const st_tensor *st_find(const st_file *f, const char *name) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

static float f16_to_f32(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    float x = exponent == 31 ? (mantissa ? __builtin_nanf("") : __builtin_inff())
              : exponent     ? __builtin_ldexpf((float)(1024 + mantissa), exponent - 25)
                             : __builtin_ldexpf((float)mantissa, -24);
    return h >> 15 ? -x : x;
}

drv_status st_read_f32(const st_file *f, const st_tensor *t, int64_t first, int64_t n, float *out) {
    DRV_ASSERT(first >= 0 && n >= 0 && first + n <= t->elements, "elements of \"%s\"", t->name);
    for (int64_t i = 0; i < n; i++) {
        double d;
        uint16_t h;
        switch (t->type) { // data need not be aligned
        case ST_F32:
            memcpy(&out[i], t->data + 4 * (first + i), 4);
            break;
        case ST_F64:
            memcpy(&d, t->data + 8 * (first + i), 8);
            out[i] = (float)d;
            break;
        case ST_BF16:
            memcpy(&h, t->data + 2 * (first + i), 2);
            out[i] = bf16_to_f32(h);
            break;
        case ST_F16:
            memcpy(&h, t->data + 2 * (first + i), 2);
            out[i] = f16_to_f32(h);
            break;
        case ST_OTHER:
            return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is %s, expected F32, BF16, F16 or F64",
                    f->path, t->name, t->type_name);
        }
    }
    return DRV_OK;
}

int64_t st_entry_elements(const st_entry *e) {
    return e->dim[0] * (e->n_dims == 2 ? e->dim[1] : 1);
}

void st_header(const st_entry *e, int n, str *out) {
    str h = {0};
    str_puts(&h, "{\"__metadata__\":{\"format\":\"pt\"}");
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const int64_t bytes = 4 * st_entry_elements(&e[i]);
        str_printf(&h, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%lld", e[i].name,
                (long long)e[i].dim[0]);
        if (e[i].n_dims == 2) str_printf(&h, ",%lld", (long long)e[i].dim[1]);
        str_printf(&h, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + bytes));
        at += bytes;
    }
    str_puts(&h, "}");
    while (h.n % 8)
        str_puts(&h, " ");
    uint64_t length = h.n;
    str_add(out, &length, 8);
    str_add(out, h.p, h.n);
    str_free(&h);
}
