// The map from names to pointers: a table of a power of two, at most half full, probed in order.
#include "base/name_map.h"

#include <stdint.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

// Eight bytes at a time: plans of large models look up millions of names.
static uint64_t hash(const char *name) {
    const size_t n = strlen(name);
    uint64_t h = n, word;
    for (size_t i = 0; i < n; i += sizeof word) {
        word = 0;
        memcpy(&word, name + i, n - i < sizeof word ? n - i : sizeof word);
        h = (h ^ word) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 32;
    }
    return h;
}

// Returns the entry that holds the name, or the free entry where it belongs.
static name_entry *find(name_entry *entries, int cap, const char *name) {
    const uint64_t mask = (uint64_t)cap - 1;
    uint64_t i = hash(name) & mask;
    while (entries[i].name && strcmp(entries[i].name, name) != 0)
        i = (i + 1) & mask;
    return &entries[i];
}

void *name_map_get(const name_map *map, const char *name) {
    return map->cap ? find(map->entries, map->cap, name)->value : NULL;
}

static void grow(name_map *map) {
    const int cap = map->cap ? 2 * map->cap : FIRST_CAPACITY;
    name_entry *entries = ARENA_ARRAY(map->a, name_entry, cap);
    for (int i = 0; i < map->cap; i++)
        if (map->entries[i].name) *find(entries, cap, map->entries[i].name) = map->entries[i];
    map->entries = entries;
    map->cap = cap;
}

void name_map_set(name_map *map, const char *name, void *value) {
    if (2 * map->n >= map->cap) grow(map);
    name_entry *entry = find(map->entries, map->cap, name);
    if (!entry->name) map->n++;
    *entry = (name_entry){name, value};
}
