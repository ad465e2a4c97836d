// Walks over JSON text (RFC 8259) without building a tree: for large files and for lines by the
// million. Small documents are read with jansson (base/json.h).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct json_cursor {
    const char *p, *end;
    const char *error;      // what is wrong at p; NULL: nothing so far
    int64_t bad_surrogates; // lone surrogates (\uD800 to \uDFFF), which are read as U+FFFD
} json_cursor;

// Returns the first byte of the next value, 0 at the end; white space before it is skipped.
char jc_peek(json_cursor *cursor);
// Returns whether only white space is left. A NUL byte counts as more text, although jc_peek
// returns 0 for it too.
bool jc_at_end(json_cursor *cursor);
// Moves past a value, which must be well-formed. False: `error` says why.
bool jc_skip(json_cursor *cursor);
// Reads the next value, a string, and appends it. Bytes are copied as they are: UTF-8 is not
// checked. False: it is not a string; `error` says why.
bool jc_string(json_cursor *cursor, str *out);
// Reads the next value, an integer. False: it is not one, or does not fit; `error` says why.
bool jc_i64(json_cursor *cursor, int64_t *out);

// Steps through an object or an array:
//   for (bool first = true; jc_next(cursor, '{', &first, key);) { ... read or skip one value ... }
// `open` is '{' or '['; `key` is cleared and filled for objects. False at the end or on an error.
bool jc_next(json_cursor *cursor, char open, bool *first, str *key);
