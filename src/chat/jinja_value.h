// Values of the template language: Python's, as far as chat templates use them.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef enum value_kind {
    VALUE_UNDEFINED, // a missing name: prints as nothing, is false, has no attributes
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LIST,      // tuples too
    VALUE_GENERATOR, // the result of map, select and the like: its list has the items left
    VALUE_DICT,
    VALUE_NAMESPACE, // namespace(): a dict whose attributes can be set
    VALUE_FUNCTION,
    VALUE_BIG_INT, // a whole number beyond 64 bits, as its text: it is printed and compared
} value_kind;

typedef struct value value;
typedef struct value_list value_list;
typedef struct value_dict value_dict;
typedef struct value_function value_function;

struct value {
    value_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        struct { // UTF-8, not terminated; also the name of an undefined value
            const char *p;
            size_t n;
            bool safe; // markupsafe's Markup: what is added to it is escaped
        } s;
        value_list *list;
        value_dict *dict;
        const value_function *function;
    };
};

// The beginning of a token in a template: its line, and its character in the line, both from 1.
typedef struct source_position {
    int line, column;
} source_position;

// The Python type that a list stands for; the last four can hardly be used but for iteration.
typedef enum list_form {
    LIST_PLAIN,
    LIST_TUPLE,
    LIST_RANGE,
    LIST_KEYS,
    LIST_VALUES,
    LIST_ITEMS,
} list_form;
static inline bool list_is_view(list_form form) { // of a dict
    return form >= LIST_KEYS;
}

struct value_list {
    value *v;
    int64_t n, cap;
    list_form form;
    int64_t bound[3]; // of LIST_RANGE: begin, end, step
};

// Entries in the order of insertion. Keys are strings or whole numbers.
struct value_dict {
    value_list keys, values;
};

// The memory of values while a template is rendered, and the limits of the template.
typedef struct value_memory {
    arena *a;
    size_t bytes, max_bytes;
    int64_t steps, max_steps; // of work
} value_memory;

enum { VALUE_MAX_TEXT = 16 << 20 }; // bytes; a longer text of a value is truncated

// DRV_E_DATA: the template exceeds its limit.
DRV_CHECKED drv_status value_alloc(value_memory *m, size_t bytes, void **out);
DRV_CHECKED drv_status value_list_add(value_memory *m, value_list *l, value v);
// DRV_E_DATA: the key is a list or dict.
DRV_CHECKED drv_status value_dict_set(value_memory *m, value_dict *d, value key, value v);
const value *value_dict_get(const value_dict *d, const value *key); // NULL: absent
DRV_CHECKED drv_status value_new_list(value_memory *m, value *out);
DRV_CHECKED drv_status value_new_generator(value_memory *m, value *out); // fill its list next
DRV_CHECKED drv_status value_new_dict(value_memory *m, value *out);
DRV_CHECKED drv_status value_copy_string(value_memory *m, const char *p, size_t n, value *out);

static inline value value_none(void) {
    return (value){.kind = VALUE_NONE};
}
static inline value value_bool(bool b) {
    return (value){.kind = VALUE_BOOL, .b = b};
}
static inline value value_int(int64_t i) {
    return (value){.kind = VALUE_INT, .i = i};
}
static inline value value_float(double f) {
    return (value){.kind = VALUE_FLOAT, .f = f};
}
static inline value value_slice(const char *p, size_t n) { // p must outlive the value
    return (value){.kind = VALUE_STRING, .s = {.p = p, .n = n}};
}
value value_text(const char *literal);           // likewise
value value_undefined(const char *p, size_t n);  // its name
bool value_is(const value *v, const char *text); // the string `text`
static inline bool value_is_number(const value *v) {
    return v->kind == VALUE_BOOL || v->kind == VALUE_INT || v->kind == VALUE_FLOAT;
}
double value_real(const value *v); // of a number
// Reads a whole number, also that of a bool; false: v is none.
static inline bool value_whole(const value *v, int64_t *out) {
    if (v->kind == VALUE_INT) *out = v->i;
    if (v->kind == VALUE_BOOL) *out = v->b;
    return v->kind == VALUE_INT || v->kind == VALUE_BOOL;
}

const char *value_type_name(const value *v); // as Python names it
bool value_true(const value *v);
// Returns whether two values are equal, and counts a step for each value in them (m NULL: does not
// count). If no steps are left it returns false, and the next charge fails.
bool value_equal(value_memory *m, const value *a, const value *b);
// Sets *out < 0, 0 or > 0. DRV_E_DATA: the two cannot be ordered.
DRV_CHECKED drv_status value_compare(value_memory *m, const value *a, const value *b, int *out);
// Append Python's str(v) and repr(v), until *out has slightly more than VALUE_MAX_TEXT bytes: a
// value may contain another many times, so its text can be far longer than its memory.
void value_print(const value *v, str *out);
void value_repr(const value *v, str *out);

typedef struct tojson_opts {
    int64_t indent;    // -1: all on one line
    value indent_text; // if a string: indents a level, in place of spaces
    value item_separator, key_separator;
    bool sort_keys, ascii;
} tojson_opts;
// Appends json.dumps(self, ensure_ascii=opts->ascii). DRV_E_DATA: JSON cannot express self.
DRV_CHECKED drv_status value_tojson(const value *self, const tojson_opts *opts, int depth,
        str *out);
DRV_CHECKED drv_status value_from_json(value_memory *memory, const json_t *json, int depth,
        value *out);

enum { VALUE_MAX_DEPTH = 100 }; // of nested values; deeper ones are cut off, or refused

// Code points, which Python counts and indexes.
int64_t text_length(const char *p, size_t n);
size_t text_offset(const char *p, size_t n, int64_t index); // byte where code point `index` begins
