// Reads the header, the metadata and the tensor list of a GGUF file, and its data by rows.
#include "gguf/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

enum {
    FIRST_WINDOW = 1 << 20,  // bytes of a file that are read first; few headers fit
    MAX_HEADER = 1 << 28,    // bytes; the largest vocabularies with their merges take 20 MB
    MAX_KEY = (1 << 16) - 1, // bytes, by the format
    MAX_NAME = 63,           // bytes of a tensor's name, by ggml
    MAX_ALIGNMENT = 1 << 20, // bytes
    DEFAULT_ALIGNMENT = 32,
};

static const struct {
    const char *name;
    int bytes; // 0: of any length
} value_types[N_GGUF_TYPES] = {[GGUF_U8] = {"u8", 1},
        [GGUF_I8] = {"i8", 1},
        [GGUF_U16] = {"u16", 2},
        [GGUF_I16] = {"i16", 2},
        [GGUF_U32] = {"u32", 4},
        [GGUF_I32] = {"i32", 4},
        [GGUF_F32] = {"f32", 4},
        [GGUF_BOOL] = {"bool", 1},
        [GGUF_TEXT] = {"text", 0},
        [GGUF_ARRAY] = {"array", 0},
        [GGUF_U64] = {"u64", 8},
        [GGUF_I64] = {"i64", 8},
        [GGUF_F64] = {"f64", 8}};

const char *gguf_type_name(gguf_type type) {
    return value_types[type].name;
}

int gguf_type_bytes(gguf_type type) {
    return value_types[type].bytes;
}

// --- bytes of the header, in order
typedef struct reader {
    const char *path;
    const unsigned char *p; // the first n bytes of the file
    size_t n, at;
    bool ran_out; // more than n bytes were needed
} reader;

static drv_status truncated(reader *r) {
    r->ran_out = true;
    return drv_fail(DRV_E_DATA, "%s: ends within its metadata, at byte %zu: is it truncated?",
            r->path, r->n);
}

static drv_status skip(reader *r, uint64_t bytes) {
    if (bytes > r->n - r->at) return truncated(r);
    r->at += (size_t)bytes;
    return DRV_OK;
}

static drv_status take(reader *r, void *out, size_t bytes) {
    if (bytes > r->n - r->at) return truncated(r);
    memcpy(out, r->p + r->at, bytes);
    r->at += bytes;
    return DRV_OK;
}

static drv_status take_text(reader *r, gguf_text *out) {
    uint64_t n = 0;
    DRV_TRY(take(r, &n, 8));
    *out = (gguf_text){(const char *)r->p + r->at, (size_t)n};
    return skip(r, n);
}

// Reads a key or a tensor's name: printable ASCII, so that messages can show it.
static drv_status take_name(arena *a, reader *r, const char *what, size_t most, const char **out) {
    const size_t at = r->at;
    uint64_t n = 0;
    DRV_TRY(take(r, &n, 8));
    if (n == 0 || n > most)
        return drv_fail(DRV_E_DATA, "%s: a %s at byte %zu has %llu bytes, expected 1 to %zu",
                r->path, what, at, (unsigned long long)n, most);
    const unsigned char *p = r->p + r->at;
    DRV_TRY(skip(r, n));
    for (size_t i = 0; i < n; i++)
        if (p[i] <= ' ' || p[i] > '~')
            return drv_fail(DRV_E_DATA, "%s: a %s at byte %zu has the byte 0x%02x, expected ASCII",
                    r->path, what, at, p[i]);
    *out = arena_strndup(a, (const char *)p, (size_t)n);
    return DRV_OK;
}

// --- metadata
static drv_status skip_elements(reader *r, gguf_value *v) {
    const int bytes = value_types[v->type].bytes;
    if (bytes) {
        uint64_t total;
        if (__builtin_mul_overflow((uint64_t)v->n, (uint64_t)bytes, &total)) return truncated(r);
        return skip(r, total);
    }
    gguf_text text;
    for (int64_t i = 0; i < v->n; i++)
        DRV_TRY(take_text(r, &text));
    return DRV_OK;
}

static drv_status take_type(reader *r, const char *key, gguf_type *out) {
    uint32_t type = 0;
    DRV_TRY(take(r, &type, 4));
    if (type >= N_GGUF_TYPES)
        return drv_fail(DRV_E_DATA, "%s: value \"%.80s\" has type %u, expected 0 to %d", r->path,
                key, type, N_GGUF_TYPES - 1);
    *out = (gguf_type)type;
    return DRV_OK;
}

static drv_status parse_value(arena *a, reader *in, gguf_value *out) {
    *out = (gguf_value){.n = 1};
    DRV_TRY(take_name(a, in, "key", MAX_KEY, &out->key));
    DRV_TRY(take_type(in, out->key, &out->type));
    if (out->type == GGUF_ARRAY) {
        uint64_t n = 0;
        out->is_array = true;
        DRV_TRY(take_type(in, out->key, &out->type));
        if (out->type == GGUF_ARRAY)
            return drv_fail(DRV_E_DATA, "%s: value \"%.80s\" is an array of arrays", in->path,
                    out->key);
        DRV_TRY(take(in, &n, 8));
        if (n > INT64_MAX) return truncated(in);
        out->n = (int64_t)n;
    }
    out->p = in->p + in->at;
    DRV_TRY(skip_elements(in, out));
    for (int64_t i = 0; out->type == GGUF_BOOL && i < out->n; i++)
        if (out->p[i] > 1)
            return drv_fail(DRV_E_DATA, "%s: value \"%.80s\" is a bool of %d, expected 0 or 1",
                    in->path, out->key, out->p[i]);
    return DRV_OK;
}

// Reads the metadata. The list grows as it is read, so a wrong count costs no memory.
static drv_status parse_values(arena *a, reader *in, uint64_t n_listed, gguf_file *file) {
    gguf_value *list = NULL, value;
    int count = 0, cap = 0;
    drv_status status = DRV_OK;
    for (uint64_t i = 0; i < n_listed && status == DRV_OK; i++) {
        status = parse_value(a, in, &value);
        if (status != DRV_OK) break;
        MEM_GROW(list, count, cap);
        list[count++] = value;
    }
    file->values = ARENA_ARRAY(a, gguf_value, count + 1);
    if (count) memcpy(file->values, list, sizeof *list * (size_t)count);
    file->n_values = count;
    free(list);
    for (int i = 0; i < count && status == DRV_OK; i++) {
        if (name_map_get(&file->by_key, file->values[i].key))
            status = drv_fail(DRV_E_DATA, "%s: key \"%.80s\" is there twice", in->path,
                    file->values[i].key);
        name_map_set(&file->by_key, file->values[i].key, &file->values[i]);
    }
    return status;
}

// --- tensors
static drv_status bad_tensor(const reader *r, const gguf_tensor *t, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" %s", r->path, t->name, what);
}

static drv_status take_shape(reader *r, gguf_tensor *t) {
    uint32_t n_dims = 0;
    DRV_TRY(take(r, &n_dims, 4));
    if (n_dims < 1 || n_dims > MAX_GGUF_DIMS)
        return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" has %u dimensions, expected 1 to %d",
                r->path, t->name, n_dims, MAX_GGUF_DIMS);
    t->n_dims = (int)n_dims;
    t->elements = 1;
    for (int i = 0; i < t->n_dims; i++) {
        uint64_t dim = 0;
        DRV_TRY(take(r, &dim, 8));
        if (dim < 1 || dim > INT64_MAX / 64 ||
                __builtin_mul_overflow(t->elements, (int64_t)dim, &t->elements) ||
                t->elements > INT64_MAX / 64)
            return bad_tensor(r, t, "has a dimension of 0, or too large ones");
        t->dim[i] = (int64_t)dim;
    }
    return DRV_OK;
}

// Reads an entry of the tensor list. `expected`: where its data must begin, after the one before.
static drv_status parse_tensor(arena *a, reader *in, gguf_tensor *tensor, int64_t expected) {
    uint32_t type = 0;
    uint64_t offset = 0;
    *tensor = (gguf_tensor){0};
    DRV_TRY(take_name(a, in, "tensor's name", MAX_NAME, &tensor->name));
    DRV_TRY(take_shape(in, tensor));
    DRV_TRY(take(in, &type, 4));
    tensor->type = quant_type_of(type);
    if (!tensor->type)
        return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" has type %u, which is unknown", in->path,
                tensor->name, type);
    if (tensor->dim[0] % tensor->type->block)
        return drv_fail(DRV_E_DATA,
                "%s: tensor \"%s\" is %s with rows of %lld elements, expected a multiple of %d",
                in->path, tensor->name, tensor->type->name, (long long)tensor->dim[0],
                tensor->type->block);
    if (__builtin_mul_overflow(tensor->elements / tensor->type->block,
                (int64_t)tensor->type->block_bytes, &tensor->bytes))
        return bad_tensor(in, tensor, "is too large");
    DRV_TRY(take(in, &offset, 8));
    if (offset == (uint64_t)expected) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: tensor \"%s\" begins at byte %llu of the data, expected %lld: data must lie in "
            "the order of the list, without gaps and overlaps",
            in->path, tensor->name, (unsigned long long)offset, (long long)expected);
}

static int64_t aligned(int64_t n, int64_t alignment) {
    return (n + alignment - 1) / alignment * alignment;
}

static drv_status parse_tensors(arena *a, reader *in, uint64_t n_listed, int64_t alignment,
        gguf_file *file) {
    gguf_tensor *list = NULL, tensor;
    int count = 0, cap = 0;
    int64_t offset = 0; // bytes of the data so far, less than file_size + MAX_ALIGNMENT
    drv_status status = DRV_OK;
    for (uint64_t i = 0; i < n_listed; i++) {
        status = parse_tensor(a, in, &tensor, offset);
        if (status != DRV_OK) break;
        tensor.offset = offset;
        if (tensor.bytes > file->size - offset) {
            status = drv_fail(DRV_E_DATA,
                    "%s: tensor \"%s\" has %lld bytes from byte %lld of the data, but the file "
                    "has only %lld: is it truncated?",
                    in->path, tensor.name, (long long)tensor.bytes, (long long)offset,
                    (long long)file->size);
            break;
        }
        offset = aligned(offset + tensor.bytes, alignment);
        MEM_GROW(list, count, cap);
        list[count++] = tensor;
    }
    file->tensors = ARENA_ARRAY(a, gguf_tensor, count + 1);
    if (count) memcpy(file->tensors, list, sizeof *list * (size_t)count);
    file->n_tensors = count;
    free(list);
    return status;
}

// Sets the tensors' offsets in the file: data begin after the list, whose end is now known.
static drv_status place_tensors(const reader *r, int64_t alignment, gguf_file *f) {
    const int64_t begin = aligned((int64_t)r->at, alignment);
    for (int i = 0; i < f->n_tensors; i++) {
        gguf_tensor *t = &f->tensors[i];
        t->offset += begin;
        if (t->bytes > f->size - t->offset)
            return drv_fail(DRV_E_DATA,
                    "%s: tensor \"%s\" ends at byte %lld, but the file has %lld: is it truncated?",
                    r->path, t->name, (long long)(t->offset + t->bytes), (long long)f->size);
        if (name_map_get(&f->by_name, t->name)) return bad_tensor(r, t, "is there twice");
        name_map_set(&f->by_name, t->name, t);
    }
    return DRV_OK;
}

static drv_status read_alignment(const gguf_file *f, int64_t *out) {
    *out = DEFAULT_ALIGNMENT;
    DRV_TRY(gguf_get_i64(f, "general.alignment", out));
    if (*out >= 1 && *out <= MAX_ALIGNMENT && (*out & (*out - 1)) == 0) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: general.alignment is %lld, expected a power of two of at most %d", f->path,
            (long long)*out, MAX_ALIGNMENT);
}

static drv_status check_version(const reader *r, uint32_t version) {
    if (version == 2 || version == 3) return DRV_OK;
    if (version && (version & 0xFFFF) == 0)
        return drv_fail(DRV_E_DATA, "%s: is big-endian, expected a little-endian GGUF file",
                r->path);
    return drv_fail(DRV_E_DATA,
            "%s: is GGUF version %u, expected 2 or 3; llama.cpp's tools write a newer one", r->path,
            version);
}

static drv_status parse(arena *a, reader *r, gguf_file *f) {
    char magic[4];
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_values = 0;
    int64_t alignment;
    if (r->n < 4 || memcmp(r->p, "GGUF", 4) != 0)
        return drv_fail(DRV_E_DATA, "%s: does not begin with \"GGUF\", so it is not a GGUF file",
                r->path);
    DRV_TRY(take(r, magic, 4));
    DRV_TRY(take(r, &version, 4));
    DRV_TRY(check_version(r, version));
    DRV_TRY(take(r, &n_tensors, 8));
    DRV_TRY(take(r, &n_values, 8));
    f->by_key.a = f->by_name.a = a;
    DRV_TRY(parse_values(a, r, n_values, f));
    DRV_TRY(read_alignment(f, &alignment));
    DRV_TRY(parse_tensors(a, r, n_tensors, alignment, f));
    return place_tensors(r, alignment, f);
}

drv_status gguf_parse(arena *a, const char *path, const void *p, size_t n, gguf_file *out) {
    reader r = {.path = path, .p = p, .n = n};
    *out = (gguf_file){.path = path, .fd = -1, .memory = p, .size = (int64_t)n};
    return parse(a, &r, out);
}

// --- files
static drv_status read_at(int fd, const char *path, int64_t offset, int64_t n, void *out) {
    const int64_t got = file_read_at(fd, out, n, offset);
    if (got == n) return DRV_OK;
    if (errno) return file_fail("read", path);
    return drv_fail(DRV_E_IO, "could not read \"%s\": it ends at byte %lld, expected %lld", path,
            (long long)(offset + got), (long long)(offset + n));
}

// Reads the beginning of the file, and more of it while the header is longer than what was read.
static drv_status parse_file(arena *a, gguf_file *f) {
    int64_t window = FIRST_WINDOW;
    for (;; window *= 4) {
        if (window > f->size) window = f->size;
        if (window > MAX_HEADER)
            return drv_fail(DRV_E_DATA, "%s: its metadata take more than %s", f->path,
                    str_bytes(MAX_HEADER));
        f->header = mem_realloc(f->header, (size_t)window + 1);
        DRV_TRY(read_at(f->fd, f->path, 0, window, f->header));
        reader r = {.path = f->path, .p = f->header, .n = (size_t)window};
        const drv_status status = parse(a, &r, f);
        if (status == DRV_OK || !r.ran_out || window == f->size) return status;
        f->by_key = f->by_name = (name_map){0};
    }
}

drv_status gguf_open(arena *a, const char *path, gguf_file *out) {
    gguf_file f = {.path = arena_strdup(a, path), .fd = -1};
    DRV_TRY(file_open_regular(path, &f.fd, &f.size));
    const drv_status status = parse_file(a, &f);
    if (status == DRV_OK)
        *out = f;
    else
        gguf_close(&f);
    return status;
}

void gguf_close(gguf_file *f) {
    if (f->fd >= 0) close(f->fd);
    free(f->header);
    *f = (gguf_file){.fd = -1};
}

bool gguf_is_gguf(const char *path) {
    char magic[4];
    int fd;
    int64_t size;
    if (file_open_regular(path, &fd, &size) != DRV_OK) return false;
    const bool found = file_read_at(fd, magic, 4, 0) == 4 && memcmp(magic, "GGUF", 4) == 0;
    close(fd);
    return found;
}

// --- data
const gguf_tensor *gguf_find_tensor(const gguf_file *f, const char *name) {
    return name_map_get(&f->by_name, name);
}

int64_t gguf_cols(const gguf_tensor *t) {
    return t->dim[0];
}

int64_t gguf_rows(const gguf_tensor *t) {
    return t->elements / t->dim[0];
}

int64_t gguf_row_bytes(const gguf_tensor *t) {
    return t->dim[0] / t->type->block * t->type->block_bytes;
}

drv_status gguf_read_raw(const gguf_file *f, const gguf_tensor *t, int64_t first, int64_t n,
        void *out) {
    DRV_ASSERT(first >= 0 && n >= 0 && n <= gguf_rows(t) - first, "rows of \"%s\"", t->name);
    const int64_t row = gguf_row_bytes(t), offset = t->offset + first * row;
    if (f->fd >= 0) return read_at(f->fd, f->path, offset, n * row, out);
    memcpy(out, f->memory + offset, (size_t)(n * row));
    return DRV_OK;
}

drv_status gguf_read_f32(const gguf_file *f, const gguf_tensor *t, int64_t first, int64_t n,
        float *out) {
    if (!t->type->to_f32)
        return drv_fail(DRV_E_DATA,
                "%s: tensor \"%s\" is %s, which is not read; expected one of %s (llama.cpp's "
                "llama-quantize turns one type into another)",
                f->path, t->name, t->type->name, quant_types_read());
    unsigned char *raw = mem_alloc((size_t)(n * gguf_row_bytes(t)) + 1);
    const drv_status status = gguf_read_raw(f, t, first, n, raw);
    if (status == DRV_OK) t->type->to_f32(raw, n * (t->dim[0] / t->type->block), out);
    free(raw);
    return status;
}
