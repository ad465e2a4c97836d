// Follows offsets of FlatBuffers, none beyond the bytes.
#include "data/read/flatbuffer.h"

static bool has(flatbuffer *buffer, size_t at, size_t bytes) {
    if (at <= buffer->n && buffer->n - at >= bytes) return true;
    buffer->broken = true;
    return false;
}

int64_t fb_number_at(const flatbuffer *buffer, size_t at, int bytes) {
    uint64_t bits = 0;
    for (int i = 0; i < bytes; i++)
        bits |= (uint64_t)buffer->p[at + (size_t)i] << 8 * i;
    const int unused = 64 - 8 * bytes;
    return (int64_t)(bits << unused) >> unused;
}

// Returns the target of the unsigned offset at a position; 0: out of range.
static size_t follow(flatbuffer *buffer, size_t at) {
    if (!has(buffer, at, 4)) return 0;
    const size_t to = at + (uint32_t)fb_number_at(buffer, at, 4);
    return has(buffer, to, 4) ? to : 0;
}

size_t fb_root(flatbuffer *buffer) {
    return follow(buffer, 0);
}

// A table begins with the distance back to its vtable, which has its own length, the table's, and
// for each field its distance from the table's beginning, 0 where it is not there.
static size_t field(flatbuffer *buffer, size_t table, int id, size_t bytes) {
    if (!table || !has(buffer, table, 4)) return 0;
    const int64_t vtable = (int64_t)table - fb_number_at(buffer, table, 4);
    if (vtable < 0 || !has(buffer, (size_t)vtable, 4)) {
        buffer->broken = true;
        return 0;
    }
    const size_t n_vtable = (uint16_t)fb_number_at(buffer, (size_t)vtable, 2),
                 entry = 4 + 2 * (size_t)id;
    if (!has(buffer, (size_t)vtable, n_vtable) || entry + 2 > n_vtable) return 0;
    const size_t distance = (uint16_t)fb_number_at(buffer, (size_t)vtable + entry, 2);
    return distance && has(buffer, table + distance, bytes) ? table + distance : 0;
}

size_t fb_table(flatbuffer *buffer, size_t table, int id) {
    const size_t at = field(buffer, table, id, 4);
    return at ? follow(buffer, at) : 0;
}

int64_t fb_int(flatbuffer *buffer, size_t table, int id, int bytes, int64_t otherwise) {
    const size_t at = field(buffer, table, id, (size_t)bytes);
    return at ? fb_number_at(buffer, at, bytes) : otherwise;
}

fb_vector fb_elements(flatbuffer *buffer, size_t table, int id, size_t bytes) {
    const size_t at = fb_table(buffer, table, id); // its length stands first
    if (!at) return (fb_vector){0};
    const size_t n = (uint32_t)fb_number_at(buffer, at, 4);
    if (!has(buffer, at + 4, n * bytes)) return (fb_vector){0};
    return (fb_vector){.at = at + 4, .n = (int64_t)n};
}

size_t fb_table_of(flatbuffer *buffer, const fb_vector *v, int64_t i) {
    return follow(buffer, v->at + 4 * (size_t)i);
}
