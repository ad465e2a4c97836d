// The map from names to pointers: a table of a power of two, at most half full, probed in order.
#include "base/name_map.h"

#include <stdint.h>
#include <string.h>

#include "base/rng.h"

enum { FIRST_CAPACITY = 64 };

// Returns the entry that holds the name, or the free entry where it belongs.
static name_entry *find(name_entry *entries, int cap, const char *name) {
    const uint64_t mask = (uint64_t)cap - 1;
    uint64_t i = hash_name(name) & mask;
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
