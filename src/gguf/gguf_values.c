// Reads values of a GGUF file's metadata by key and type.
#include <math.h>
#include <string.h>

#include "gguf/gguf.h"
#include "tok/unicode.h"

const gguf_value *gguf_find(const gguf_file *f, const char *key) {
    return name_map_get(&f->by_key, key);
}

static drv_status refuse(const gguf_file *f, const gguf_value *v, const char *expected) {
    return drv_fail(DRV_E_DATA, "%s: value \"%s\" is %s%s, expected %s", f->path, v->key,
            v->is_array ? "an array of " : "", gguf_type_name(v->type), expected);
}

static bool is_one(const gguf_value *v, gguf_type type) {
    return !v->is_array && v->type == type;
}

// Reads element i as a whole number. False: it has another type, or does not fit.
static bool read_whole(const gguf_value *v, int64_t i, int64_t *out) {
    const int bytes = gguf_type_bytes(v->type);
    const bool is_signed = v->type == GGUF_I8 || v->type == GGUF_I16 || v->type == GGUF_I32;
    const bool is_whole = is_signed || v->type == GGUF_U8 || v->type == GGUF_U16 ||
                          v->type == GGUF_U32 || v->type == GGUF_U64 || v->type == GGUF_I64;
    if (!is_whole) return false;
    uint64_t u = 0;
    memcpy(&u, v->p + i * bytes, (size_t)bytes);
    if (v->type == GGUF_U64 && u > INT64_MAX) return false;
    if (is_signed && u >> (8 * bytes - 1)) u |= ~0ull << (8 * bytes);
    *out = (int64_t)u;
    return true;
}

drv_status gguf_get_i64(const gguf_file *f, const char *key, int64_t *out) {
    const gguf_value *v = gguf_find(f, key);
    if (!v || (!v->is_array && read_whole(v, 0, out))) return DRV_OK;
    return refuse(f, v, "a whole number");
}

double gguf_meant(float x) {
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) return strtod(text, NULL);
    }
    return (double)x;
}

drv_status gguf_get_f64(const gguf_file *f, const char *key, double *out) {
    const gguf_value *v = gguf_find(f, key);
    float x;
    if (!v) return DRV_OK;
    if (is_one(v, GGUF_F64)) {
        memcpy(out, v->p, 8);
    } else if (is_one(v, GGUF_F32)) {
        memcpy(&x, v->p, 4);
        *out = gguf_meant(x);
    } else {
        return refuse(f, v, "a real number");
    }
    return isfinite(*out) ? DRV_OK : refuse(f, v, "a finite number");
}

drv_status gguf_get_bool(const gguf_file *f, const char *key, bool *out) {
    const gguf_value *v = gguf_find(f, key);
    if (!v) return DRV_OK;
    if (!is_one(v, GGUF_BOOL)) return refuse(f, v, "a bool");
    *out = *v->p;
    return DRV_OK;
}

static gguf_text text_at(const unsigned char *p) {
    uint64_t n;
    memcpy(&n, p, 8);
    return (gguf_text){(const char *)p + 8, (size_t)n};
}

drv_status gguf_get_text(arena *a, const gguf_file *f, const char *key, const char **out) {
    const gguf_value *v = gguf_find(f, key);
    if (!v) return DRV_OK;
    if (!is_one(v, GGUF_TEXT)) return refuse(f, v, "a text");
    const gguf_text text = text_at(v->p);
    if (!utf8_valid(text.p, text.n) || memchr(text.p, 0, text.n))
        return refuse(f, v, "UTF-8 without NUL");
    *out = arena_strndup(a, text.p, text.n);
    return DRV_OK;
}

drv_status gguf_get_texts(arena *a, const gguf_file *f, const char *key, gguf_text **out,
        int64_t *n) {
    const gguf_value *v = gguf_find(f, key);
    *n = 0;
    if (!v) return DRV_OK;
    if (!v->is_array || v->type != GGUF_TEXT) return refuse(f, v, "an array of texts");
    *out = ARENA_ARRAY(a, gguf_text, v->n + 1);
    const unsigned char *p = v->p;
    for (int64_t i = 0; i < v->n; i++) {
        const gguf_text text = text_at(p);
        if (!utf8_valid(text.p, text.n) || memchr(text.p, 0, text.n))
            return drv_fail(DRV_E_DATA, "%s: text %lld of \"%s\" is not UTF-8 or has a NUL",
                    f->path, (long long)i, key);
        (*out)[i] = text;
        p += 8 + text.n;
    }
    *n = v->n;
    return DRV_OK;
}

drv_status gguf_get_f32s(arena *a, const gguf_file *f, const char *key, float **out, int64_t *n) {
    const gguf_value *v = gguf_find(f, key);
    *n = 0;
    if (!v) return DRV_OK;
    if (!v->is_array || (v->type != GGUF_F32 && v->type != GGUF_I32))
        return refuse(f, v, "an array of f32");
    *out = ARENA_ARRAY(a, float, v->n + 1);
    for (int64_t i = 0; i < v->n; i++) {
        int64_t whole;
        if (read_whole(v, i, &whole))
            (*out)[i] = (float)whole;
        else
            memcpy(&(*out)[i], v->p + 4 * i, 4);
    }
    *n = v->n;
    return DRV_OK;
}

drv_status gguf_get_i32s(arena *a, const gguf_file *f, const char *key, int32_t **out, int64_t *n) {
    const gguf_value *v = gguf_find(f, key);
    int64_t x;
    *n = 0;
    if (!v) return DRV_OK;
    if (!v->is_array) return refuse(f, v, "an array of whole numbers");
    *out = ARENA_ARRAY(a, int32_t, v->n + 1);
    for (int64_t i = 0; i < v->n; i++) {
        if (!read_whole(v, i, &x) || x < INT32_MIN || x > INT32_MAX)
            return refuse(f, v, "an array of whole numbers of 32 bits");
        (*out)[i] = (int32_t)x;
    }
    *n = v->n;
    return DRV_OK;
}
