// Base64 (RFC 4648, section 4), with its padding.
#pragma once
#include <stdbool.h>

#include "base/str.h"

// Decodes n characters and appends the bytes. False: they are not Base64; *out has a part of them.
bool base64_decode(const char *text, size_t n, str *out);
// Encodes n bytes and appends the characters.
void base64_encode(const void *bytes, size_t n, str *out);
