// Reads varints and fields, and skips fields that are not needed.
#include "data/read/thrift.h"

enum { MAX_DEPTH = 64 };

static unsigned byte(thrift *in) {
    if (in->p == in->end) in->bad = true;
    return in->bad ? 0 : *in->p++;
}

uint64_t thrift_varint(thrift *in) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const unsigned b = byte(in);
        v |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) return in->bad ? 0 : v;
    }
    in->bad = true;
    return 0;
}

int64_t thrift_int(thrift *in) {
    const uint64_t v = thrift_varint(in);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

bool thrift_next(thrift *in, thrift_field *field) {
    const unsigned b = byte(in);
    field->type = b & 15;
    if (in->bad || field->type == THRIFT_STOP) return false;
    const int64_t id = b >> 4 ? field->id + (int64_t)(b >> 4) : thrift_int(in);
    in->bad |= id < 0 || id > INT16_MAX || field->type > THRIFT_STRUCT;
    field->id = (int)id;
    return !in->bad;
}

const char *thrift_bytes(thrift *in, size_t *n) {
    const uint64_t k = thrift_varint(in);
    if (k > (uint64_t)(in->end - in->p)) in->bad = true;
    *n = in->bad ? 0 : k;
    const char *p = (const char *)in->p;
    in->p += *n;
    return p;
}

int64_t thrift_list(thrift *in, thrift_type *element) {
    const unsigned b = byte(in);
    uint64_t n = b >> 4;
    if (n == 15) n = thrift_varint(in);
    *element = b & 15;
    if (n > (uint64_t)(in->end - in->p)) in->bad = true; // an element has at least a byte
    return in->bad ? 0 : (int64_t)n;
}

static void skip(thrift *in, thrift_type type, int depth);

static void skip_element(thrift *in, thrift_type type, int depth) {
    if (type == THRIFT_TRUE || type == THRIFT_FALSE)
        byte(in); // in lists and maps each has a byte
    else
        skip(in, type, depth);
}

static void skip(thrift *in, thrift_type type, int depth) {
    thrift_field field = {0};
    thrift_type key, value;
    size_t n_items;
    if (depth > MAX_DEPTH) in->bad = true;
    if (in->bad) return;
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
        return; // the type is the value
    case THRIFT_I8:
        byte(in);
        return;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        thrift_varint(in);
        return;
    case THRIFT_DOUBLE:
        for (int i = 0; i < 8; i++)
            byte(in);
        return;
    case THRIFT_BINARY:
        thrift_bytes(in, &n_items);
        return;
    case THRIFT_LIST:
    case THRIFT_SET:
        for (int64_t i = thrift_list(in, &value); i > 0 && !in->bad; i--)
            skip_element(in, value, depth + 1);
        return;
    case THRIFT_MAP: {
        const uint64_t pairs = thrift_varint(in);
        const unsigned types = pairs ? byte(in) : 0;
        key = types >> 4;
        value = types & 15;
        for (uint64_t i = 0; i < pairs && !in->bad; i++) {
            skip_element(in, key, depth + 1);
            skip_element(in, value, depth + 1);
        }
        return;
    }
    case THRIFT_STRUCT:
        while (thrift_next(in, &field))
            skip(in, field.type, depth + 1);
        return;
    default:
        in->bad = true;
    }
}

void thrift_skip(thrift *in, thrift_type type) {
    skip(in, type, 0);
}
