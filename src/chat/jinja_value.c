// Makes, compares and prints the values of the template language as Python does.
#include "chat/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

drv_status value_alloc(value_memory *m, size_t bytes, void **out) {
    *out = NULL;
    if (bytes > m->max_bytes - m->bytes)
        return drv_fail(DRV_E_DATA, "the template takes more than %s of memory",
                str_bytes((double)m->max_bytes));
    m->bytes += bytes + 64;
    if (m->bytes > m->max_bytes) m->bytes = m->max_bytes;
    *out = arena_alloc(m->a, bytes ? bytes : 1);
    return DRV_OK;
}

drv_status value_list_add(value_memory *m, value_list *l, value v) {
    if (l->n == l->cap) {
        const int64_t cap = l->cap ? 2 * l->cap : 8;
        void *bigger;
        DRV_TRY(value_alloc(m, sizeof(value) * (size_t)cap, &bigger));
        if (l->n) memcpy(bigger, l->v, sizeof(value) * (size_t)l->n);
        l->v = bigger;
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return DRV_OK;
}

static int64_t find_key(const value_dict *d, const value *key) {
    for (int64_t i = 0; i < d->keys.n; i++)
        if (value_equal(NULL, &d->keys.v[i], key)) return i;
    return -1;
}

drv_status value_dict_set(value_memory *m, value_dict *d, value key, value v) {
    if (key.kind == VALUE_LIST || key.kind == VALUE_DICT)
        return drv_fail(DRV_E_DATA, "%s cannot be a key", value_type_name(&key));
    const int64_t i = find_key(d, &key);
    if (i >= 0) {
        d->values.v[i] = v;
        return DRV_OK;
    }
    DRV_TRY(value_list_add(m, &d->keys, key));
    return value_list_add(m, &d->values, v);
}

const value *value_dict_get(const value_dict *d, const value *key) {
    const int64_t i = find_key(d, key);
    return i < 0 ? NULL : &d->values.v[i];
}

drv_status value_new_list(value_memory *m, value *out) {
    void *p;
    DRV_TRY(value_alloc(m, sizeof(value_list), &p));
    *out = (value){.kind = VALUE_LIST, .list = p};
    return DRV_OK;
}

drv_status value_new_generator(value_memory *m, value *out) {
    DRV_TRY(value_new_list(m, out));
    out->kind = VALUE_GENERATOR;
    return DRV_OK;
}

drv_status value_new_dict(value_memory *m, value *out) {
    void *p;
    DRV_TRY(value_alloc(m, sizeof(value_dict), &p));
    *out = (value){.kind = VALUE_DICT, .dict = p};
    return DRV_OK;
}

drv_status value_copy_string(value_memory *m, const char *p, size_t n, value *out) {
    void *copy;
    DRV_TRY(value_alloc(m, n, &copy));
    if (n) memcpy(copy, p, n);
    *out = value_slice(copy, n);
    return DRV_OK;
}

value value_text(const char *literal) {
    return value_slice(literal, strlen(literal));
}

value value_undefined(const char *p, size_t n) {
    return (value){.kind = VALUE_UNDEFINED, .s = {.p = p, .n = n}};
}

bool value_is(const value *v, const char *text) {
    return v->kind == VALUE_STRING && v->s.n == strlen(text) && memcmp(v->s.p, text, v->s.n) == 0;
}

double value_real(const value *v) {
    return v->kind == VALUE_FLOAT ? v->f : v->kind == VALUE_INT ? (double)v->i : (double)v->b;
}

const char *value_type_name(const value *v) {
    static const char *const names[] = {"Undefined", "NoneType", "bool", "int", "float", "str",
            "list", "generator", "dict", "Namespace", "function", "int"};
    static const char *const forms[] = {"list", "tuple", "range", "dict_keys", "dict_values",
            "dict_items"};
    return v->kind == VALUE_LIST ? forms[v->list->form] : names[v->kind];
}

bool value_true(const value *v) {
    switch (v->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return v->b;
    case VALUE_INT:
        return v->i != 0;
    case VALUE_FLOAT:
        return v->f < 0 || v->f > 0 || isnan(v->f);
    case VALUE_STRING:
        return v->s.n > 0;
    case VALUE_LIST:
        return v->list->n > 0;
    case VALUE_DICT:
        return v->dict->keys.n > 0;
    default:
        return true;
    }
}

static bool equal(value_memory *m, const value *left, const value *right, int depth);

static bool lists_equal(value_memory *m, const value_list *a, const value_list *b, int depth) {
    if (a->n != b->n || a->form != b->form) return false;
    for (int64_t i = 0; i < a->n; i++)
        if (!equal(m, &a->v[i], &b->v[i], depth)) return false;
    return true;
}

static bool dicts_equal(value_memory *m, const value_dict *a, const value_dict *b, int depth) {
    if (a->keys.n != b->keys.n) return false;
    for (int64_t i = 0; i < a->keys.n; i++) {
        const value *other = value_dict_get(b, &a->keys.v[i]);
        if (!other || !equal(m, &a->values.v[i], other, depth)) return false;
    }
    return true;
}

bool value_equal(value_memory *m, const value *a, const value *b) {
    return equal(m, a, b, 0);
}

static bool equal(value_memory *memory, const value *left, const value *right, int depth) {
    if (depth > VALUE_MAX_DEPTH || (memory && ++memory->steps > memory->max_steps)) return false;
    if (value_is_number(left) && value_is_number(right)) {
        if (left->kind == VALUE_INT && right->kind == VALUE_INT) return left->i == right->i;
        const double x = value_real(left), y = value_real(right);
        return x >= y && x <= y;
    }
    if (left->kind != right->kind) return false;
    switch (left->kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    case VALUE_STRING:
    case VALUE_BIG_INT:
        return left->s.n == right->s.n &&
               (left->s.n == 0 || memcmp(left->s.p, right->s.p, left->s.n) == 0);
    case VALUE_LIST:
        return lists_equal(memory, left->list, right->list, depth + 1);
    case VALUE_DICT:
        return dicts_equal(memory, left->dict, right->dict, depth + 1);
    case VALUE_NAMESPACE:
        return left->dict == right->dict;
    case VALUE_GENERATOR:
        return left->list == right->list;
    default:
        return left->function == right->function;
    }
}

static drv_status compare(value_memory *memory, const value *left, const value *right, int depth,
        int *out) {
    if (depth > VALUE_MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "a value is nested too deeply to order it");
    if (left->kind == VALUE_INT && right->kind == VALUE_INT) {
        *out = left->i < right->i ? -1 : left->i > right->i;
        return DRV_OK;
    }
    if (value_is_number(left) && value_is_number(right)) {
        const double x = value_real(left), y = value_real(right);
        *out = x < y ? -1 : x > y;
        return DRV_OK;
    }
    if (left->kind == VALUE_STRING && right->kind == VALUE_STRING) {
        const size_t n = left->s.n < right->s.n ? left->s.n : right->s.n;
        *out = n ? memcmp(left->s.p, right->s.p, n) : 0; // UTF-8 sorts as its code points
        if (*out == 0) *out = left->s.n < right->s.n ? -1 : left->s.n > right->s.n;
        return DRV_OK;
    }
    if (left->kind == VALUE_LIST && right->kind == VALUE_LIST) {
        for (int64_t i = 0; i < left->list->n && i < right->list->n; i++)
            if (!value_equal(memory, &left->list->v[i], &right->list->v[i]))
                return compare(memory, &left->list->v[i], &right->list->v[i], depth + 1, out);
        *out = left->list->n < right->list->n ? -1 : left->list->n > right->list->n;
        return DRV_OK;
    }
    return drv_fail(DRV_E_DATA, "%s and %s cannot be ordered", value_type_name(left),
            value_type_name(right));
}

drv_status value_compare(value_memory *m, const value *a, const value *b, int *out) {
    return compare(m, a, b, 0, out);
}

// Prints the shortest decimal that reads back as f, in Python's form: 0.1, 100000.0, 1e-05, 1e+16.
static void print_float(double f, str *out) {
    if (!isfinite(f)) {
        str_puts(out, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    char text[40];
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*e", digits - 1, f);
    while (strtod(text, NULL) != f && ++digits <= 17); // NOLINT: exact on purpose
    const int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16) {
        const int decimals = digits - 1 - exponent;
        str_printf(out, "%.*f", decimals > 1 ? decimals : 1, f);
    } else {
        str_printf(out, "%.*s", (int)strcspn(text, "e"), text);
        str_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
}

static bool printable(utf8proc_int32_t c) {
    if (c == ' ') return true;
    const utf8proc_category_t k = utf8proc_category(c);
    return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

static void repr_string(const value *self, str *out) {
    const char *text = self->s.p;
    const bool single = self->s.n && memchr(text, '\'', self->s.n),
               twice = self->s.n && memchr(text, '"', self->s.n);
    const char quote = single && !twice ? '"' : '\'';
    str_add(out, &quote, 1);
    for (size_t i = 0; i < self->s.n;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                (utf8proc_ssize_t)(self->s.n - i), &c);
        if (n < 1) break;
        if (c == quote || c == '\\')
            str_printf(out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            str_puts(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (printable(c))
            str_add(out, text + i, (size_t)n);
        else
            str_printf(out,
                    c < 0x100     ? "\\x%02x"
                    : c < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                    (unsigned)c);
        i += (size_t)n;
    }
    str_add(out, &quote, 1);
}

static void repr(const value *self, int depth, str *out);

static void repr_list(const value_list *l, int depth, str *out) {
    static const char *const begins[] = {"[", "(", "range(", "dict_keys([", "dict_values([",
            "dict_items(["},
                             *const ends[] = {"]", ")", ")", "])", "])", "])"};
    str_puts(out, begins[l->form]);
    if (l->form == LIST_RANGE) {
        str_printf(out, "%lld, %lld", (long long)l->bound[0], (long long)l->bound[1]);
        if (l->bound[2] != 1) str_printf(out, ", %lld", (long long)l->bound[2]);
        str_puts(out, ")");
        return;
    }
    for (int64_t i = 0; i < l->n; i++) {
        if (i) str_puts(out, ", ");
        repr(&l->v[i], depth, out);
    }
    if (l->form == LIST_TUPLE && l->n == 1) str_puts(out, ",");
    str_puts(out, ends[l->form]);
}

static void repr_dict(const value_dict *d, int depth, str *out) {
    str_puts(out, "{");
    for (int64_t i = 0; i < d->keys.n; i++) {
        if (i) str_puts(out, ", ");
        repr(&d->keys.v[i], depth, out);
        str_puts(out, ": ");
        repr(&d->values.v[i], depth, out);
    }
    str_puts(out, "}");
}

static void repr(const value *self, int depth, str *out) {
    if (out->n > VALUE_MAX_TEXT) return; // cut off, which the caller sees by the length
    if (depth > VALUE_MAX_DEPTH) {
        str_puts(out, "...");
        return;
    }
    switch (self->kind) {
    case VALUE_UNDEFINED:
        str_puts(out, "Undefined");
        break;
    case VALUE_NONE:
        str_puts(out, "None");
        break;
    case VALUE_BOOL:
        str_puts(out, self->b ? "True" : "False");
        break;
    case VALUE_INT:
        str_printf(out, "%lld", (long long)self->i);
        break;
    case VALUE_FLOAT:
        print_float(self->f, out);
        break;
    case VALUE_STRING:
        repr_string(self, out);
        break;
    case VALUE_LIST:
        repr_list(self->list, depth + 1, out);
        break;
    case VALUE_GENERATOR:
        str_puts(out, "<generator object>");
        break;
    case VALUE_DICT:
        repr_dict(self->dict, depth + 1, out);
        break;
    case VALUE_NAMESPACE:
        str_puts(out, "<Namespace ");
        repr_dict(self->dict, depth + 1, out);
        str_puts(out, ">");
        break;
    case VALUE_BIG_INT:
        str_add(out, self->s.p, self->s.n);
        break;
    case VALUE_FUNCTION:
        str_puts(out, "<function>");
    }
}

void value_repr(const value *v, str *out) {
    repr(v, 0, out);
}

void value_print(const value *v, str *out) {
    if (v->kind == VALUE_STRING)
        str_add(out, v->s.p, v->s.n);
    else if (v->kind != VALUE_UNDEFINED)
        value_repr(v, out);
}

// --- code points

int64_t text_length(const char *p, size_t n) {
    int64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)p[i] & 0xC0) != 0x80;
    return count;
}

size_t text_offset(const char *p, size_t n, int64_t index) {
    size_t i = 0;
    for (; i < n; i++)
        if (((unsigned char)p[i] & 0xC0) != 0x80 && index-- == 0) break;
    return i;
}
