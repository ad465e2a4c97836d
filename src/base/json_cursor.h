// Walks over JSON text (RFC 8259) without building a tree: for large files and for lines by the
// million. Small documents are read with jansson (base/json.h).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct json_cursor {
    const char *p, *end;
    const char *error;      // what was wrong at p; NULL so far
    int64_t bad_surrogates; // \u escapes that are no character: read as U+FFFD
} json_cursor;

// The first byte of the next value, 0 at the end; white space before it is skipped.
char jc_peek(json_cursor *c);
// Moves past a value, which must be well-formed. False: `error` says why.
bool jc_skip(json_cursor *c);
// Appends the string at hand as UTF-8. Bytes are taken as they are: UTF-8 is not checked.
bool jc_string(json_cursor *c, str *out);
// The next integer.
bool jc_i64(json_cursor *c, int64_t *out);

// Steps through an object or an array:
//   for (bool first = true; jc_next(c, '{', &first, key);) { ... read or skip one value ... }
// `open` is '{' or '['; `key` is cleared and filled for objects. False at the end or on an error.
bool jc_next(json_cursor *c, char open, bool *first, str *key);
