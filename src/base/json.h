// Reading JSON files with jansson: errors name the file, the line, the key and what was expected.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

// Has jansson end the process where there is no memory (DRV_MEMORY), as all else does. Called once,
// at the start.
void json_needs_memory(void);

// Parses a file. The caller owns *out (json_decref).
DRV_CHECKED drv_status json_read_file(const char *path, json_t **out);
// The same, as json_parse has it, of what a user names as an input, which may be a pipe.
DRV_CHECKED drv_status json_read_any(const char *path, json_t **out);
// Parses `n` bytes; `path` is for messages.
DRV_CHECKED drv_status json_read_bytes(const char *path, const void *p, size_t n, json_t **out);

// Parses a value that others wrote, as Python's json.loads does: NaN and Infinity too, the last of
// members by one name, half surrogates as U+FFFD, a NUL in a key likewise. Whole numbers beyond 64
// bits and reals beyond doubles become values that json_odd_number knows. DRV_E_DATA: what is
// wrong, and at which byte.
DRV_CHECKED drv_status json_parse(const void *p, size_t n, json_t **out);
// Returns the text of a number that jansson has no value for; NULL: it is none.
const char *json_odd_number(const json_t *value);

// Typed members of an object. An absent or null member leaves *out as it is.
DRV_CHECKED drv_status json_get_i64(const char *path, const json_t *o, const char *key,
        int64_t *out);
DRV_CHECKED drv_status json_get_f64(const char *path, const json_t *o, const char *key,
        double *out);
// The string belongs to the JSON value.
DRV_CHECKED drv_status json_get_str(const char *path, const json_t *o, const char *key,
        const char **out);

// Returns the text of a value, each number as short as its bits allow: 1e-05 read is 1e-05 written.
// The caller frees it. `flags` are jansson's, but JSON_REAL_PRECISION.
char *json_print(const json_t *value, size_t flags);
// Writes pretty JSON atomically and takes over (decrefs) the value.
DRV_CHECKED drv_status json_write_file(const char *path, json_t *value);
