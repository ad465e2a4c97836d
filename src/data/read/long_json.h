// Decodes the text of a long JSON object piece by piece, so that memory holds the object and one
// decoded piece.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef struct long_json { // single owner; all 0 at first
    const char *p, *end;   // the string's inside that is not decoded yet, in the caller's line
    str text;              // decoded and not yet taken
    str slice;             // the part of the string that is being decoded
} long_json;

// Finds the string under `key`, the last one if there are several, in a line that stays where it is
// while pieces are taken. False: the line is not one whole object with such a string.
bool long_json_open(long_json *j, const char *line, size_t n, const char *key);
// Appends the next piece, about `piece` bytes that end where split_cut allows, more where it allows
// no cut. Returns whether it is the last one. *bad: \u escapes that are not characters, read as
// U+FFFD.
bool long_json_next(long_json *j, size_t piece, str *out, int64_t *bad);
void long_json_free(long_json *j);
