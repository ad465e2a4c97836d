// Decodes the text of a long JSON object piece by piece, so that memory holds the object and one
// decoded piece.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef struct long_json { // single owner; all 0 at first
    const char *p, *end;   // the part of the string that is not decoded yet, in the caller's line
    str text;              // decoded and not yet returned
    str slice;             // buffer for the part of the string that is being decoded
} long_json;

// Finds the string under `key`, the last one if there are several, in a line that must stay in
// memory while pieces are read. Returns false if the line is not one complete object with such a
// string.
bool long_json_open(long_json *j, const char *line, size_t n, const char *key);
// Appends the next piece: about `piece` bytes up to a cut that split_cut allows, more where it
// allows none. Returns whether it is the last piece. *bad: the number of \u escapes that are not
// characters; they become U+FFFD.
bool long_json_next(long_json *j, size_t piece, str *out, int64_t *bad);
void long_json_free(long_json *j);
