// Work on strings that methods and filters share. Strings are valid UTF-8.
#pragma once
#include "chat/jinja_eval_internal.h"

typedef enum text_case_kind { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL } text_case_kind;

bool text_is_space(int32_t c);
// Without the characters of `chars` (NULL: white space) at its sides.
value text_strip(const value *v, const value *chars, bool left, bool right);
// Appends the text as Python's method makes it (jinja_case.c). The caller charges n/16 steps.
void text_case(const value *v, text_case_kind kind, str *out);
// Replaces every `from` by `to`, the first `most` of them (-1: all).
DRV_CHECKED drv_status text_replace(jinja_context *c, const value *self, const value *from,
        const value *to, int64_t most, value *out);

// UTF-8 of a code point, with a NUL after it; its bytes, 0: it is none.
size_t text_encode(int64_t code, char out[5]);

// Returns the code point that n bytes begin with, and its bytes; where the last one begins; whether
// the first is one of `chars` (NULL: white space); where `what` is first found (NULL: nowhere).
int32_t text_char_at(const char *p, size_t n, size_t *length);
size_t text_char_before(const char *p, size_t n);
bool text_strips(const char *p, size_t n, const value *chars);
const char *text_find(const char *p, size_t n, const value *what);
