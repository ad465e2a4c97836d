// Converts values from JSON and to JSON, as json.dumps when transformers' tojson calls it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_value.h"

// Appends a code point, n bytes of UTF-8, as \uXXXX or as a surrogate pair.
static void escape_point(const char *p, size_t n, str *out) {
    uint32_t code = (unsigned char)p[0] & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)p[i] & 0x3F);
    if (code >= 0x10000) {
        str_printf(out, "\\u%04x", 0xD7C0 + (code >> 10));
        code = 0xDC00 | (code & 0x3FF);
    }
    str_printf(out, "\\u%04x", code);
}

static void json_string_of(const value *v, bool ascii, str *out) {
    str_puts(out, "\"");
    for (size_t i = 0; i < v->s.n; i++) {
        const unsigned char c = (unsigned char)v->s.p[i];
        static const char named[] = "\b\f\n\r\t", letters[] = "bfnrt";
        const char *found = c ? strchr(named, c) : NULL;
        if (c == '"' || c == '\\')
            str_printf(out, "\\%c", c);
        else if (found)
            str_printf(out, "\\%c", letters[found - named]);
        else if (c < 0x20 || (ascii && c == 0x7F)) // as Python, which escapes all but " " to "~"
            str_printf(out, "\\u%04x", c);
        else if (ascii && c > 0x7F) {
            const size_t n = text_offset(v->s.p + i, v->s.n - i, 1);
            escape_point(v->s.p + i, n, out);
            i += n - 1;
        } else
            str_add(out, &v->s.p[i], 1);
    }
    str_puts(out, "\"");
}

static void new_line(const tojson_opts *o, int depth, str *out) {
    if (o->indent < 0) return;
    str_puts(out, "\n");
    const bool given = o->indent_text.kind == VALUE_STRING;
    for (int64_t i = 0; i < (given ? 1 : o->indent) * depth; i++)
        str_add(out, given ? o->indent_text.s.p : " ", given ? o->indent_text.s.n : 1);
}

static drv_status tojson_list(const value_list *l, const tojson_opts *o, int depth, str *out) {
    str_puts(out, "[");
    for (int64_t i = 0; i < l->n; i++) {
        if (i) str_add(out, o->item_separator.s.p, o->item_separator.s.n);
        new_line(o, depth + 1, out);
        DRV_TRY(value_tojson(&l->v[i], o, depth + 1, out));
    }
    if (l->n) new_line(o, depth, out);
    str_puts(out, "]");
    return DRV_OK;
}

typedef struct json_entry {
    const value *key, *v;
} json_entry;

static int by_key(const void *x, const void *y) {
    const value *a = ((const json_entry *)x)->key, *b = ((const json_entry *)y)->key;
    int order = 0;
    return value_compare(NULL, a, b, &order) == DRV_OK ? order : 0;
}

static drv_status tojson_dict(const value_dict *dict, const tojson_opts *opts, int depth,
        str *out) {
    json_entry *list = mem_alloc(sizeof *list * (size_t)(dict->keys.n + 1));
    for (int64_t i = 0; i < dict->keys.n; i++)
        list[i] = (json_entry){&dict->keys.v[i], &dict->values.v[i]};
    if (opts->sort_keys) qsort(list, (size_t)dict->keys.n, sizeof *list, by_key);
    drv_status status = DRV_OK;
    str_puts(out, "{");
    for (int64_t i = 0; i < dict->keys.n && status == DRV_OK; i++) {
        if (i) str_add(out, opts->item_separator.s.p, opts->item_separator.s.n);
        new_line(opts, depth + 1, out);
        if (list[i].key->kind == VALUE_STRING) {
            json_string_of(list[i].key, opts->ascii, out);
        } else { // a number as a key is text in JSON
            str_puts(out, "\"");
            status = value_tojson(list[i].key, opts, depth + 1, out);
            str_puts(out, "\"");
        }
        str_add(out, opts->key_separator.s.p, opts->key_separator.s.n);
        if (status == DRV_OK) status = value_tojson(list[i].v, opts, depth + 1, out);
    }
    free(list);
    if (dict->keys.n) new_line(opts, depth, out);
    str_puts(out, "}");
    return status;
}

drv_status value_tojson(const value *self, const tojson_opts *opts, int depth, str *out) {
    if (depth > VALUE_MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "a value is nested too deeply for JSON");
    if (out->n > VALUE_MAX_TEXT)
        return drv_fail(DRV_E_DATA, "tojson makes a text of more than %s",
                str_bytes(VALUE_MAX_TEXT));
    switch (self->kind) {
    case VALUE_NONE:
        str_puts(out, "null");
        return DRV_OK;
    case VALUE_BOOL:
        str_puts(out, self->b ? "true" : "false");
        return DRV_OK;
    case VALUE_FLOAT:
        if (isfinite(self->f))
            value_repr(self, out);
        else
            str_puts(out, isnan(self->f) ? "NaN" : self->f > 0 ? "Infinity" : "-Infinity");
        return DRV_OK;
    case VALUE_INT:
    case VALUE_BIG_INT:
        value_repr(self, out);
        return DRV_OK;
    case VALUE_STRING:
        json_string_of(self, opts->ascii, out);
        return DRV_OK;
    case VALUE_LIST:
        if (self->list->form >= LIST_RANGE) break;
        return tojson_list(self->list, opts, depth, out);
    case VALUE_DICT:
        return tojson_dict(self->dict, opts, depth, out);
    default:
        break;
    }
    return drv_fail(DRV_E_DATA, "%s is not JSON serializable", value_type_name(self));
}

static drv_status from_object(value_memory *m, const json_t *json, int depth, value *out) {
    const char *key;
    json_t *v;
    DRV_TRY(value_new_dict(m, out));
    json_object_foreach((json_t *)(uintptr_t)json, key, v) {
        value k, item;
        DRV_TRY(value_copy_string(m, key, strlen(key), &k));
        DRV_TRY(value_from_json(m, v, depth + 1, &item));
        DRV_TRY(value_list_add(m, &out->dict->keys, k)); // a JSON object has each key once
        DRV_TRY(value_list_add(m, &out->dict->values, item));
    }
    return DRV_OK;
}

// Converts a number out of range: as in Python, a real is infinite and a whole number is exact.
static drv_status from_odd_number(value_memory *memory, const char *text, value *out) {
    if (text[strspn(text, "-0123456789")] != 0) {
        *out = value_float(strtod(text, NULL));
        return DRV_OK;
    }
    DRV_TRY(value_copy_string(memory, text, strlen(text), out));
    out->kind = VALUE_BIG_INT;
    return DRV_OK;
}

drv_status value_from_json(value_memory *memory, const json_t *json, int depth, value *out) {
    const char *number = json_odd_number(json);
    if (number) return from_odd_number(memory, number, out);
    if (depth > VALUE_MAX_DEPTH) return drv_fail(DRV_E_DATA, "a JSON value is nested too deeply");
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return from_object(memory, json, depth, out);
    case JSON_ARRAY:
        DRV_TRY(value_new_list(memory, out));
        for (size_t i = 0; i < json_array_size(json); i++) {
            value item;
            DRV_TRY(value_from_json(memory, json_array_get(json, i), depth + 1, &item));
            DRV_TRY(value_list_add(memory, out->list, item));
        }
        return DRV_OK;
    case JSON_STRING:
        return value_copy_string(memory, json_string_value(json), json_string_length(json), out);
    case JSON_INTEGER:
        *out = value_int(json_integer_value(json));
        return DRV_OK;
    case JSON_REAL:
        *out = value_float(json_real_value(json));
        return DRV_OK;
    case JSON_NULL:
        *out = value_none();
        return DRV_OK;
    default:
        *out = value_bool(json_is_true(json));
        return DRV_OK;
    }
}
