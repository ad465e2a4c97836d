// Base64 (RFC 4648, section 4), with its padding.
#pragma once
#include <stdbool.h>

#include "base/str.h"

// Appends the bytes that n characters stand for. False: they are not Base64; *out is to be cleared.
bool base64_decode(const char *text, size_t n, str *out);
// Appends the characters that stand for n bytes.
void base64_encode(const void *bytes, size_t n, str *out);
