// Reads JSON files with jansson: errors name the file, the line, the key and the expected value.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

// Makes jansson end the process when memory runs out (DRV_MEMORY). Called once, at the start.
void json_needs_memory(void);

// Parses a file. The caller owns *out (json_decref).
DRV_CHECKED drv_status json_read_file(const char *path, json_t **out);
// Parses a file that a user names as an input, which may be a pipe, like json_parse.
DRV_CHECKED drv_status json_read_any(const char *path, json_t **out);
// Parses `n` bytes; `path` is for messages.
DRV_CHECKED drv_status json_read_bytes(const char *path, const void *p, size_t n, json_t **out);

// Parses a value of foreign origin as Python's json.loads does: it accepts NaN and Infinity, takes
// the last of several members with one name, and reads lone surrogates and a NUL in a key as
// U+FFFD. Whole numbers beyond 64 bits and reals beyond doubles become values that json_odd_number
// recognises. DRV_E_DATA names the error and its byte.
DRV_CHECKED drv_status json_parse(const void *p, size_t n, json_t **out);
// Returns the text of a number that jansson cannot represent; NULL: the value is not such a number.
const char *json_odd_number(const json_t *value);

// Get a member of an object. DRV_E_DATA: it has another type. An absent or null member leaves *out
// as it is. `path` is for messages.
DRV_CHECKED drv_status json_get_i64(const char *path, const json_t *o, const char *key,
        int64_t *out);
DRV_CHECKED drv_status json_get_f64(const char *path, const json_t *o, const char *key,
        double *out);
// The string belongs to the JSON value.
DRV_CHECKED drv_status json_get_str(const char *path, const json_t *o, const char *key,
        const char **out);

// Make values: null for a number that is not finite, a count below 0, NULL, and text that is not
// UTF-8.
json_t *json_of_f64(double x);
json_t *json_of_count(int64_t n);
json_t *json_of_text(const char *text);
json_t *json_of_words(const char *text); // as json_of_text, and null for ""

// Returns the text of a value. `flags` are jansson's; without JSON_REAL_PRECISION reals have the
// fewest digits, 15 to 17, that read back the same. The caller frees it.
char *json_print(const json_t *value, size_t flags);
// Print into an arena, or at the end of `out`; both take over (decref) the value.
char *json_print_in(arena *a, json_t *value, size_t flags);
void json_print_to(str *out, json_t *value, size_t flags);
// Writes pretty JSON atomically and takes over (decrefs) the value.
DRV_CHECKED drv_status json_write_file(const char *path, json_t *value);
