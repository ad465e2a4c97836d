// The safetensors format: headers are checked in full before a byte of data is used.
#include "source/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
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

const char *st_type_name(st_type t) {
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].type == t) return types[i].name;
    return "";
}

int64_t st_type_bytes(st_type t) {
    DRV_ASSERT(t != ST_OTHER, "a type without a size");
    return t == ST_F64 ? 8 : t == ST_F32 ? 4 : 2;
}

bool st_type_of(const char *name, st_type *out) {
    static const struct {
        const char *name;
        st_type type;
    } names[] = {{"f32", ST_F32}, {"bf16", ST_BF16}, {"f16", ST_F16}, {"fp32", ST_F32},
            {"fp16", ST_F16}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0) {
            *out = names[i].type;
            return true;
        }
    return false;
}

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

static drv_status parse_tensor(const char *path, const json_t *entry, int64_t n_data,
        st_tensor *tensor) {
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    int k = 0;
    while (type && k < N_TYPES && strcmp(types[k].name, type) != 0)
        k++;
    if (!type || k == N_TYPES) return bad(path, tensor->name, "dtype is missing or unknown");
    tensor->type = types[k].type;
    tensor->type_name = types[k].name;
    DRV_TRY(parse_shape(path, json_object_get(entry, "shape"), tensor));
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
            !json_is_integer(json_array_get(offsets, 0)) ||
            !json_is_integer(json_array_get(offsets, 1)))
        return bad(path, tensor->name, "data_offsets are not two numbers");
    const int64_t from = json_integer_value(json_array_get(offsets, 0)),
                  to = json_integer_value(json_array_get(offsets, 1));
    if (from < 0 || to < from || to > n_data)
        return drv_fail(DRV_E_DATA,
                "%s: tensor \"%.80s\": bytes %lld to %lld, but the file has %lld; is it truncated?",
                path, tensor->name, (long long)from, (long long)to, (long long)n_data);
    if (tensor->elements * types[k].bits % 8 || to - from != tensor->elements * types[k].bits / 8)
        return bad(path, tensor->name, "data_offsets do not fit shape and dtype");
    tensor->offset = from;
    tensor->bytes = to - from;
    return DRV_OK;
}

// __metadata__ maps text to text (or is null); other readers refuse any other content.
static drv_status check_metadata(const char *path, const json_t *metadata) {
    const char *key;
    json_t *v;
    if (json_is_null(metadata)) return DRV_OK;
    if (!json_is_object(metadata))
        return drv_fail(DRV_E_DATA, "%s: __metadata__ is not a JSON object", path);
    json_object_foreach((json_t *)(uintptr_t)metadata, key,
            v) if (!json_is_string(v)) return drv_fail(DRV_E_DATA,
            "%s: __metadata__: \"%.80s\" is not a string", path, key);
    return DRV_OK;
}

static int by_data(const void *x, const void *y) {
    const st_tensor *a = x, *b = y;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

// Every byte of the data belongs to exactly one tensor, as the reference reader demands
// (safetensors/src/tensor.rs, Metadata::validate): bytes in a gap would be copied unnoticed.
static drv_status check_cover(const char *path, const st_file *f, int64_t n_data) {
    int64_t covered = 0;
    for (int i = 0; i < f->n; i++) {
        const st_tensor *t = &f->tensors[i];
        if (t->offset < covered)
            return bad(path, f->tensors[i - 1].name, "overlaps the next tensor");
        if (t->offset > covered)
            return drv_fail(DRV_E_DATA,
                    "%s: bytes %lld to %lld of the data, before tensor \"%.80s\", belong to none",
                    path, (long long)covered, (long long)t->offset, t->name);
        covered += t->bytes;
    }
    if (covered == n_data) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: %lld bytes after the last tensor belong to none", path,
            (long long)(n_data - covered));
}

static drv_status parse_header(arena *a, const json_t *root, int64_t n_data, st_file *out) {
    const char *path = out->path;
    if (!json_is_object(root))
        return drv_fail(DRV_E_DATA, "%s: the header is not a JSON object", path);
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
        DRV_TRY(parse_tensor(path, v, n_data, t));
    }
    if (out->n) qsort(out->tensors, (size_t)out->n, sizeof *out->tensors, by_data);
    out->by_name = (name_map){.a = a};
    for (int i = 0; i < out->n; i++)
        name_map_set(&out->by_name, out->tensors[i].name, &out->tensors[i]);
    return check_cover(path, out, n_data);
}

static drv_status check_header_length(const char *path, uint64_t n_header, int64_t n_file) {
    if (n_header <= (uint64_t)n_file - 8 && n_header <= MAX_HEADER) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: header length is %llu, but the file has %lld bytes", path,
            (unsigned long long)n_header, (long long)n_file);
}

static drv_status parse_text(arena *a, const void *header, uint64_t n_header, int64_t n_file,
        st_file *out) {
    json_t *root;
    DRV_TRY(json_read_bytes(out->path, header, (size_t)n_header, &root));
    out->data_at = 8 + (int64_t)n_header;
    drv_status status = parse_header(a, root, n_file - out->data_at, out);
    json_decref(root);
    return status;
}

static drv_status too_short(const char *path, int64_t n) {
    return drv_fail(DRV_E_DATA, "%s: %lld bytes, too short for safetensors", path, (long long)n);
}

drv_status st_parse(arena *a, const char *path, const void *p, size_t n, st_file *out) {
    uint64_t n_header;
    *out = (st_file){.path = path, .fd = -1, .memory = p};
    if (n < 8) return too_short(path, (int64_t)n);
    memcpy(&n_header, p, 8);
    DRV_TRY(check_header_length(path, n_header, (int64_t)n));
    return parse_text(a, (const char *)p + 8, n_header, (int64_t)n, out);
}

static drv_status read_at(const st_file *f, int64_t offset, int64_t n, void *out) {
    const int64_t got = file_read_at(f->fd, out, n, offset);
    if (got == n) return DRV_OK;
    if (errno) return file_fail("read", f->path);
    return drv_fail(DRV_E_IO, "\"%s\" ends at byte %lld: it was shortened while it was read",
            f->path, (long long)(offset + got));
}

static drv_status open_header(arena *a, int64_t n_file, st_file *f) {
    uint64_t n_header;
    if (n_file < 8) return too_short(f->path, n_file);
    DRV_TRY(read_at(f, 0, 8, &n_header));
    DRV_TRY(check_header_length(f->path, n_header, n_file));
    char *header = mem_alloc((size_t)n_header + 1);
    drv_status status = read_at(f, 8, (int64_t)n_header, header);
    if (status == DRV_OK) status = parse_text(a, header, n_header, n_file, f);
    free(header);
    return status;
}

drv_status st_open(arena *a, const char *path, st_file *out) {
    int64_t n_file;
    *out = (st_file){.path = arena_strdup(a, path), .fd = -1};
    DRV_TRY(file_open_regular(path, &out->fd, &n_file));
    drv_status status = open_header(a, n_file, out);
    if (status != DRV_OK) st_close(out);
    return status;
}

void st_close(st_file *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    f->n = 0;
}

const st_tensor *st_find(const st_file *f, const char *name) {
    return name_map_get(&f->by_name, name);
}

// --- values
drv_status st_read_raw(const st_file *f, const st_tensor *t, int64_t first, int64_t n, void *out) {
    DRV_ASSERT(first >= 0 && n >= 0 && first + n <= t->bytes, "bytes of \"%s\"", t->name);
    const int64_t offset = f->data_at + t->offset + first;
    if (f->fd >= 0) return read_at(f, offset, n, out);
    if (n) memcpy(out, f->memory + offset, (size_t)n);
    return DRV_OK;
}

static drv_status read_f64(const st_file *f, const st_tensor *t, int64_t first, int64_t n,
        float *out) {
    enum { PIECE = 512 };
    double piece[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = n - at < PIECE ? n - at : PIECE;
        DRV_TRY(st_read_raw(f, t, 8 * (first + at), 8 * count, piece));
        for (int64_t i = 0; i < count; i++)
            out[at + i] = (float)piece[i];
    }
    return DRV_OK;
}

enum { WIDENED = 64 }; // elements at a time

// Widened from the front: element i is written to bytes up to 4 i + 4, and the first one still to
// be read lies at 2 n + 2 i + 2, no nearer.
void st_widen(st_type type, const void *halves, int64_t n, float *out) {
    const char *raw = halves;
    int64_t i = 0;
    for (; type == ST_BF16 && i + WIDENED <= n; i += WIDENED) { // vectors, as the count is known
        uint16_t in[WIDENED];
        uint32_t wide[WIDENED];
        memcpy(in, raw + 2 * i, sizeof in);
        for (int k = 0; k < WIDENED; k++)
            wide[k] = (uint32_t)in[k] << 16;
        memcpy(&out[i], wide, sizeof wide);
    }
    for (; i < n; i++) {
        uint16_t half;
        memcpy(&half, raw + 2 * i, 2);
        const float value = type == ST_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
        memcpy(&out[i], &value, 4);
    }
}

drv_status st_read_f32(const st_file *f, const st_tensor *t, int64_t first, int64_t n, float *out) {
    DRV_ASSERT(first >= 0 && n >= 0 && first + n <= t->elements, "elements of \"%s\"", t->name);
    switch (t->type) {
    case ST_F32:
        return st_read_raw(f, t, 4 * first, 4 * n, out);
    case ST_F64:
        return read_f64(f, t, first, n, out);
    case ST_BF16:
    case ST_F16:
        DRV_TRY(st_read_raw(f, t, 2 * first, 2 * n, (char *)out + 2 * n));
        st_widen(t->type, (char *)out + 2 * n, n, out);
        return DRV_OK;
    case ST_OTHER:
        break;
    }
    return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is %s, expected F32, BF16, F16 or F64", f->path,
            t->name, t->type_name);
}

// --- writing
int64_t st_entry_elements(const st_entry *e) {
    return e->dim[0] * (e->n_dims == 2 ? e->dim[1] : 1);
}

int64_t st_entry_bytes(const st_entry *e) {
    return st_type_bytes(e->type) * st_entry_elements(e);
}

void st_header(const st_entry *entries, int n_entries, str *out) {
    str header = {0};
    str_puts(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    int64_t at = 0;
    for (int i = 0; i < n_entries; i++) {
        const int64_t bytes = st_entry_bytes(&entries[i]);
        str_puts(&header, ",");
        // The name comes from a file, so any byte in it has to be escaped.
        json_print_to(&header, json_string(entries[i].name), JSON_ENCODE_ANY);
        str_printf(&header, ":{\"dtype\":\"%s\",\"shape\":[%lld", st_type_name(entries[i].type),
                (long long)entries[i].dim[0]);
        if (entries[i].n_dims == 2) str_printf(&header, ",%lld", (long long)entries[i].dim[1]);
        str_printf(&header, "],\"data_offsets\":[%lld,%lld]}", (long long)at,
                (long long)(at + bytes));
        at += bytes;
    }
    str_puts(&header, "}");
    while (header.n % 8)
        str_puts(&header, " ");
    uint64_t length = header.n;
    str_add(out, &length, 8);
    str_add(out, header.p, header.n);
    str_free(&header);
}

// --- rounding
drv_status tensor_round(const char *name, st_type type, const float *values, int64_t n, void *out) {
    DRV_ASSERT(type != ST_F64 && type != ST_OTHER, "\"%s\" in a type that is not written", name);
    if (type == ST_F32) memmove(out, values, sizeof *values * (size_t)n);
    if (type == ST_F32) return DRV_OK;
    const uint16_t infinity = type == ST_F16 ? 0x7C00 : 0x7F80;
    for (int64_t i = 0; i < n; i++) {
        float value; // the bytes of `out` may be those of `values`, two elements in one
        memcpy(&value, &values[i], sizeof value);
        const uint16_t half = type == ST_F16 ? f32_to_f16(value) : f32_to_bf16(value);
        memcpy((char *)out + 2 * i, &half, sizeof half);
        if ((half & infinity) == infinity)
            return drv_fail(DRV_E_DATA, "tensor \"%s\" has the value %g, which %s cannot hold%s",
                    name, (double)value, st_type_name(type),
                    type == ST_F16 ? " (at most 65504); bf16 can" : "");
    }
    return DRV_OK;
}
