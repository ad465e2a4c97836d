// Values of JSON, and how a message shows a value.
#include "config/value.h"

const char *value_shown(arena *a, const value *v) {
    switch (v->kind) {
    case VALUE_NULL:
        return "empty";
    case VALUE_LIST:
        return arena_printf(a, "a list of %d", v->n);
    case VALUE_MAP:
        return "a section";
    case VALUE_TEXT:
        break;
    }
    return arena_printf(a, "\"%.80s\"", v->text);
}

static value read_json(arena *a, const char *where, const char *path, const char *name,
        const json_t *json, int depth);

static void read_items(arena *a, value *v, const json_t *json, int depth) {
    const char *name;
    json_t *item;
    size_t i;
    v->n = (int)(v->kind == VALUE_LIST ? json_array_size(json) : json_object_size(json));
    value *items = ARENA_ARRAY(a, value, v->n), *next = items;
    v->items = items;
    if (v->kind == VALUE_LIST)
        json_array_foreach(json, i, item) *next++ = read_json(a, v->where,
                arena_printf(a, "%s[%zu]", v->path, i), NULL, item, depth + 1);
    else
        json_object_foreach((json_t *)(uintptr_t)json, name, item) *next++ = read_json(a, v->where,
                arena_printf(a, "%s%s%s", v->path, *v->path ? "." : "", name),
                arena_strdup(a, name), item, depth + 1);
}

static value read_json(arena *a, const char *where, const char *path, const char *name,
        const json_t *json, int depth) {
    enum { MAX_DEPTH = 4 }; // what lies deeper is not a field of a model
    value read = {.path = path, .name = name, .where = where};
    switch (json_odd_number(json) ? JSON_STRING : json_typeof(json)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        read.kind = json_is_array(json) ? VALUE_LIST : VALUE_MAP;
        if (depth < MAX_DEPTH) read_items(a, &read, json, depth);
        return read;
    case JSON_NULL:
        return read;
    case JSON_STRING:
        read.string = json_is_string(json);
        read.text = arena_strdup(a, read.string ? json_string_value(json) : json_odd_number(json));
        break;
    case JSON_INTEGER:
        read.text = arena_printf(a, "%lld", (long long)json_integer_value(json));
        break;
    case JSON_REAL:
        read.text = arena_strdup(a, str_real(json_real_value(json)));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        read.text = json_is_true(json) ? "true" : "false";
        break;
    }
    read.kind = VALUE_TEXT;
    return read;
}

value value_of_json(arena *a, const char *where, const char *path, const json_t *json) {
    return read_json(a, where, path, NULL, json, 0);
}
