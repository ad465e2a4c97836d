// A value as it was written, before a key gives it a meaning: a scalar, a list or a map, each with
// its origin. YAML files, --set and config.json are all converted to values, so that one table of
// keys (key.h) serves them all. Everything lives in the arena it was read into.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef enum value_kind { VALUE_NULL, VALUE_TEXT, VALUE_LIST, VALUE_MAP } value_kind;

typedef struct value {
    value_kind kind;
    const char *path;  // "optimizer.betas[0]", "data.train[1].prefix"
    const char *name;  // of a member of a map: the last part of its path
    const char *where; // "run.yaml:12", "--set", or the path of a config.json
    const char *text;  // VALUE_TEXT
    bool string;       // JSON's "5", which is not a number
    const struct value *items;
    int n;
} value;

// Returns a description of the value for messages: its text, truncated, or "a list of 3", "a
// section", "empty". Lives in `a`.
const char *value_shown(arena *a, const value *v);

// Reads a YAML file of one document; an empty one gives a map without items. Strings are valid
// UTF-8 without NUL bytes. DRV_E_USAGE: not YAML, nested deeper than 8, a map key that is not a
// word.
DRV_CHECKED drv_status yaml_read(arena *a, const char *file, const char *text, size_t n,
        value *out);
// Reads "path=value", the value in YAML's flow style ([0.9, 0.95]). An empty value is VALUE_NULL.
DRV_CHECKED drv_status yaml_read_set(arena *a, const char *set, value *out);
// Reads one value in YAML's flow style, such as a default in a table of keys.
DRV_CHECKED drv_status yaml_read_value(arena *a, const char *path, const char *where_given,
        const char *text, value *out);

// Writes text as a double-quoted scalar that YAML readers turn back into the same bytes (UTF-8).
void yaml_quote(const char *text, str *out);
// Writes a path for a user to copy: quoted only where YAML would read it as something else.
void yaml_put_path(const char *path, str *out);

// Converts a JSON value; an object becomes a map, and values nested deeper than four levels are
// omitted.
value value_of_json(arena *a, const char *where, const char *path, const json_t *json);
