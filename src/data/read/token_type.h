// The integer types of token ids in files, by NumPy's names, and their conversion to int32_t.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct token_type { // little-endian
    int bytes;              // 1, 2, 4 or 8; 0: not given
    bool is_signed;
} token_type;

enum { MAX_TOKEN_BYTES = 8 };

// Finds a type by its name of n letters, such as "uint16".
bool token_type_of(const char *name, size_t n, token_type *out);
const char *token_type_name(token_type type);
// Returns the token at `p`. A uint64 beyond int64 comes out negative, which no id is either.
int64_t token_at(token_type type, const void *p);
// Appends n ids as int32_t each. Stops at the first id below 0 or above 2147483647, and sets *bad
// to it. Returns the number of ids appended.
int64_t token_ids_add(token_type type, const void *p, int64_t n, str *out, int64_t *bad);
