// Parses JSON of foreign origin with the cursor that also reads texts, so that all readers agree on
// what is valid. Unlike Python's parser, jansson's refuses numbers that exceed a machine word, NULs
// in keys and lone surrogates.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_cursor.h"
#include "base/str.h"

// Noncharacter U+10FFFF: the only key of an object that stands for a number.
#define NUMBER_KEY "\xF4\x8F\xBF\xBF"

enum { MAX_DEPTH = 512 }; // as jc_skip's

const char *json_odd_number(const json_t *value) {
    if (json_object_size(value) != 1) return NULL;
    return json_string_value(json_object_get(value, NUMBER_KEY));
}

static json_t *broken(json_cursor *c, const char *why) {
    if (!c->error) c->error = why;
    return NULL;
}

// Returns jansson's integer or real for a number, or, if it fits neither, an object that holds its
// text.
static json_t *number_of(const char *text, size_t n) {
    str digits = {0};
    int64_t whole;
    str_add(&digits, text, n);
    const bool is_whole = digits.p[strspn(digits.p, "-0123456789")] == 0;
    const double real = strtod(digits.p, NULL);
    json_t *out;
    if (is_whole && str_to_i64(digits.p, &whole))
        out = json_integer(whole);
    else if (!is_whole && isfinite(real))
        out = json_real(real);
    else
        out = json_pack("{s:o}", NUMBER_KEY, json_stringn(text, n));
    str_free(&digits);
    return out;
}

static json_t *parse(json_cursor *c, str *text, int depth);

static json_t *parse_object(json_cursor *c, str *text, int depth) {
    json_t *object = json_object();
    str key = {0};
    for (bool first = true; jc_next(c, '{', &first, &key);) {
        str name = {0}; // jansson ends a key at a NUL
        for (size_t i = 0; i < key.n; i++)
            if (key.p[i])
                str_add(&name, key.p + i, 1);
            else
                str_puts(&name, "\xEF\xBF\xBD");
        json_t *value = parse(c, text, depth + 1);
        if (value && json_object_set_new(object, name.p ? name.p : "", value) != 0)
            broken(c, "a key that is not UTF-8");
        str_free(&name);
        if (c->error) break;
    }
    str_free(&key);
    if (!c->error) return object;
    json_decref(object);
    return NULL;
}

static json_t *parse_array(json_cursor *c, str *text, int depth) {
    json_t *array = json_array();
    for (bool first = true; jc_next(c, '[', &first, NULL);) {
        json_t *value = parse(c, text, depth + 1);
        if (!value) break;
        json_array_append_new(array, value);
    }
    if (!c->error) return array;
    json_decref(array);
    return NULL;
}

static json_t *parse(json_cursor *c, str *text, int depth) {
    if (c->error) return NULL;
    if (depth > MAX_DEPTH) return broken(c, "nested too deeply");
    const char kind = jc_peek(c);
    if (kind == '{') return parse_object(c, text, depth);
    if (kind == '[') return parse_array(c, text, depth);
    const char *begin = c->p;
    if (kind == '"') {
        str_clear(text);
        if (!jc_string(c, text)) return NULL;
        json_t *string = json_stringn(text->p ? text->p : "", text->n);
        return string ? string : broken(c, "a string that is not UTF-8");
    }
    if (!jc_skip(c)) return NULL;
    if (kind == 't' || kind == 'f') return json_boolean(kind == 't');
    if (kind == 'n') return json_null();
    return number_of(begin, (size_t)(c->p - begin));
}

drv_status json_parse(const void *p, size_t n, json_t **out) {
    json_cursor cursor = {.p = p, .end = (const char *)p + n};
    str text = {0};
    *out = parse(&cursor, &text, 0);
    str_free(&text);
    if (*out && !jc_at_end(&cursor)) {
        json_decref(*out);
        *out = broken(&cursor, "more text after the value");
    }
    if (*out) return DRV_OK;
    return drv_fail(DRV_E_DATA, "not valid JSON at byte %zu: %s",
            (size_t)(cursor.p - (const char *)p), cursor.error);
}
