// Varints, fields and the skipping of what is not read.
#include "data/read/thrift.h"

enum { MAX_DEPTH = 64 };

static unsigned byte(thrift *t) {
    if (t->p == t->end) t->bad = true;
    return t->bad ? 0 : *t->p++;
}

uint64_t thrift_varint(thrift *t) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const unsigned b = byte(t);
        v |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) return t->bad ? 0 : v;
    }
    t->bad = true;
    return 0;
}

int64_t thrift_int(thrift *t) {
    const uint64_t v = thrift_varint(t);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

bool thrift_next(thrift *t, thrift_field *f) {
    const unsigned b = byte(t);
    f->type = b & 15;
    if (t->bad || f->type == THRIFT_STOP) return false;
    const int64_t id = b >> 4 ? f->id + (int64_t)(b >> 4) : thrift_int(t);
    t->bad |= id < 0 || id > INT16_MAX || f->type > THRIFT_STRUCT;
    f->id = (int)id;
    return !t->bad;
}

const char *thrift_bytes(thrift *t, size_t *n) {
    const uint64_t k = thrift_varint(t);
    if (k > (uint64_t)(t->end - t->p)) t->bad = true;
    *n = t->bad ? 0 : k;
    const char *p = (const char *)t->p;
    t->p += *n;
    return p;
}

int64_t thrift_list(thrift *t, thrift_type *element) {
    const unsigned b = byte(t);
    uint64_t n = b >> 4;
    if (n == 15) n = thrift_varint(t);
    *element = b & 15;
    if (n > (uint64_t)(t->end - t->p)) t->bad = true; // an element has at least a byte
    return t->bad ? 0 : (int64_t)n;
}

static void skip(thrift *t, thrift_type type, int depth);

static void skip_element(thrift *t, thrift_type type, int depth) {
    if (type == THRIFT_TRUE || type == THRIFT_FALSE)
        byte(t); // in lists and maps each has a byte
    else
        skip(t, type, depth);
}

static void skip(thrift *t, thrift_type type, int depth) {
    thrift_field f = {0};
    thrift_type key, value;
    size_t n;
    if (depth > MAX_DEPTH) t->bad = true;
    if (t->bad) return;
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
        return; // the type is the value
    case THRIFT_I8:
        byte(t);
        return;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        thrift_varint(t);
        return;
    case THRIFT_DOUBLE:
        for (int i = 0; i < 8; i++)
            byte(t);
        return;
    case THRIFT_BINARY:
        thrift_bytes(t, &n);
        return;
    case THRIFT_LIST:
    case THRIFT_SET:
        for (int64_t i = thrift_list(t, &value); i > 0 && !t->bad; i--)
            skip_element(t, value, depth + 1);
        return;
    case THRIFT_MAP: {
        const uint64_t pairs = thrift_varint(t);
        const unsigned types = pairs ? byte(t) : 0;
        key = types >> 4;
        value = types & 15;
        for (uint64_t i = 0; i < pairs && !t->bad; i++) {
            skip_element(t, key, depth + 1);
            skip_element(t, value, depth + 1);
        }
        return;
    }
    case THRIFT_STRUCT:
        while (thrift_next(t, &f))
            skip(t, f.type, depth + 1);
        return;
    default:
        t->bad = true;
    }
}

void thrift_skip(thrift *t, thrift_type type) {
    skip(t, type, 0);
}
