// Whole JSON files by jansson, and typed members of objects.
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

void json_needs_memory(void) {
    json_set_alloc_funcs(mem_alloc, free);
}

// Copies JSON with ".0" after whole numbers of 19 digits and more, so that they are read as reals.
static void widen_whole_numbers(const char *p, size_t n, str *out) {
    bool text = false;
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        if (p[i] == '"') text = !text;
        if (text && p[i] == '\\' && end < n) end++;
        while (!text && p[i] >= '0' && p[i] <= '9' && end < n && p[end] >= '0' && p[end] <= '9')
            end++;
        str_add(out, p + i, end - i);
        const bool fraction = (i > 0 && p[i - 1] == '.') || (end < n && strchr(".eE", p[end]));
        if (end - i >= 19 && !fraction) str_puts(out, ".0");
        i = end;
    }
}

// transformers writes model_max_length as 10^30 where a tokenizer has no limit, and Infinity into
// config.json of some families.
static json_t *load(const void *p, size_t n, json_error_t *e) {
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *value = json_loadb(p, n, flags, e);
    if (value || json_error_code(e) == json_error_duplicate_key) return value;
    if (json_error_code(e) == json_error_numeric_overflow) {
        json_error_t again;
        str wide = {0};
        widen_whole_numbers(p, n, &wide);
        value = json_loadb(wide.p, wide.n, flags, &again);
        str_free(&wide);
    }
    if (!value && json_parse(p, n, &value) != DRV_OK) return NULL;
    return value;
}

drv_status json_read_bytes(const char *path, const void *p, size_t n, json_t **out) {
    json_error_t e;
    *out = load(p, n, &e);
    if (!*out)
        return drv_fail(DRV_E_DATA, "%s:%d:%d: not valid JSON: %s", path, e.line, e.column, e.text);
    return DRV_OK;
}

// Files are read, not mapped: another process may be cutting one short, and then reading a page of
// a map that is gone would end this process (SIGBUS).
drv_status json_read_file(const char *path, json_t **out) {
    arena *a = arena_new("JSON");
    char *text;
    size_t n;
    drv_status status = file_read(a, path, &text, &n);
    if (status == DRV_OK) status = json_read_bytes(path, text, n, out);
    arena_free(a);
    return status;
}

drv_status json_read_any(const char *path, json_t **out) {
    arena *a = arena_new("JSON");
    char *text;
    size_t n;
    drv_status status = file_read_any(a, path, &text, &n);
    if (status == DRV_OK && (status = json_parse(text, n, out)) != DRV_OK)
        drv_context(status, "%s", path);
    arena_free(a);
    return status;
}

static drv_status wrong(const char *path, const char *key, const json_t *v, const char *expected) {
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *number = json_odd_number(v);
    drv_status s = drv_fail(DRV_E_DATA, "%s: key \"%s\" is %.80s, expected %s", path, key,
            number ? number
            : text ? text
                   : "?",
            expected);
    free(text);
    return s;
}

static const json_t *member(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_null(v) ? NULL : v;
}

drv_status json_get_i64(const char *path, const json_t *o, const char *key, int64_t *out) {
    const json_t *v = member(o, key);
    if (!v) return DRV_OK;
    if (!json_is_integer(v)) return wrong(path, key, v, "a whole number");
    *out = json_integer_value(v);
    return DRV_OK;
}

drv_status json_get_f64(const char *path, const json_t *o, const char *key, double *out) {
    const json_t *v = member(o, key);
    if (!v) return DRV_OK;
    if (!json_is_number(v)) return wrong(path, key, v, "a number");
    *out = json_number_value(v);
    return DRV_OK;
}

drv_status json_get_str(const char *path, const json_t *o, const char *key, const char **out) {
    const json_t *v = member(o, key);
    if (!v) return DRV_OK;
    if (!json_is_string(v)) return wrong(path, key, v, "a string");
    *out = json_string_value(v);
    return DRV_OK;
}

json_t *json_of_f64(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *json_of_count(int64_t n) {
    return n >= 0 ? json_integer(n) : json_null();
}

json_t *json_of_text(const char *text) {
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_null();
}

json_t *json_of_words(const char *text) {
    return json_of_text(text && *text ? text : NULL);
}

// A decimal of 15 digits survives reading and writing; 17 digits keep every double.
char *json_print(const json_t *value, size_t flags) {
    char *text = NULL;
    bool same = flags & JSON_REAL_PRECISION(31);
    if (same) text = json_dumps(value, flags);
    for (size_t digits = 15; digits <= 17 && !same; digits++) {
        free(text);
        text = json_dumps(value, flags | JSON_REAL_PRECISION(digits));
        json_t *back = json_loads(text, JSON_DECODE_ANY, NULL);
        same = json_equal(value, back);
        json_decref(back);
    }
    DRV_ASSERT(text, "a value has no JSON text");
    return text;
}

void json_print_to(str *out, json_t *value, size_t flags) {
    char *text = json_print(value, flags);
    str_puts(out, text);
    free(text);
    json_decref(value);
}

char *json_print_in(arena *a, json_t *value, size_t flags) {
    str text = {0};
    json_print_to(&text, value, flags);
    return str_keep(a, &text);
}

drv_status json_write_file(const char *path, json_t *value) {
    char *text = json_print(value, JSON_INDENT(2));
    json_decref(value);
    size_t n = strlen(text);
    text[n] = '\n'; // in place of the NUL
    drv_status s = file_write_atomic(path, text, n + 1);
    free(text);
    return s;
}
