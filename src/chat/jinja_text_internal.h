// String functions that methods and filters share. Strings are valid UTF-8.
#pragma once
#include "chat/jinja_eval_internal.h"

typedef enum text_case_kind { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL } text_case_kind;

bool text_is_space(int32_t c);
// Removes the characters of `chars` (NULL: white space) at either end.
value text_strip(const value *v, const value *chars, bool left, bool right);
// Appends the text in another case, as Python does (jinja_case.c). The caller charges n/16 steps.
void text_case(const value *v, text_case_kind kind, str *out);
// Replaces the first `most` occurrences of `from` by `to` (-1: all).
DRV_CHECKED drv_status text_replace(jinja_context *c, const value *self, const value *from,
        const value *to, int64_t most, value *out);

// Writes a code point as UTF-8 and a NUL; returns its bytes, 0 if it is not a code point.
size_t text_encode(int64_t code, char out[5]);

// Return the first code point of n bytes, and its length; where the last one begins; whether the
// first is one of `chars` (NULL: white space); where `what` is first found (NULL: nowhere).
int32_t text_char_at(const char *p, size_t n, size_t *length);
size_t text_char_before(const char *p, size_t n);
// Returns whether a line ends at p, as in Python's splitlines; *n: bytes of its end, or of the
// character at p.
bool text_ends_line(const char *p, const char *end, size_t *n);
bool text_strips(const char *p, size_t n, const value *chars);
const char *text_find(const char *p, size_t n, const value *what);
