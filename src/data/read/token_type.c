// Names and conversion of integer types.
#include "data/read/token_type.h"

#include <string.h>

static const struct {
    const char *name;
    token_type type;
} types[] = {{"uint16", {2, false}}, {"uint32", {4, false}}, {"int32", {4, true}},
        {"int64", {8, true}}, {"uint64", {8, false}}, {"int16", {2, true}}, {"uint8", {1, false}},
        {"int8", {1, true}}};
enum { N_TYPES = sizeof types / sizeof *types };

bool token_type_of(const char *name, size_t n, token_type *out) {
    for (int i = 0; i < N_TYPES; i++)
        if (strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0) {
            *out = types[i].type;
            return true;
        }
    return false;
}

const char *token_type_name(token_type type) {
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].type.bytes == type.bytes && types[i].type.is_signed == type.is_signed)
            return types[i].name;
    return "no type";
}

int64_t token_at(token_type type, const void *p) {
    uint64_t x = 0;
    memcpy(&x, p, (size_t)type.bytes);
    if (type.is_signed && type.bytes < 8 && x >> (8 * type.bytes - 1))
        x |= UINT64_MAX << (8 * type.bytes);
    return (int64_t)x;
}

int64_t token_ids_add(token_type type, const void *p, int64_t n, str *out, int64_t *bad) {
    const unsigned char *from = p;
    str_reserve(out, (size_t)n * sizeof(int32_t));
    int64_t i = 0;
    for (; i < n; i++, from += type.bytes) {
        const int64_t id = token_at(type, from);
        if (id < 0 || id > INT32_MAX) {
            *bad = id;
            break;
        }
        memcpy(out->p + out->n, &(int32_t){(int32_t)id}, sizeof(int32_t)); // at any byte
        out->n += sizeof(int32_t);
    }
    out->p[out->n] = 0;
    return i;
}
