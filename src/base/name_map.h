// A map from names to pointers, by open addressing. Its table lives in the arena; the names must
// live as long. Single owner.
#pragma once
#include "base/arena.h"

typedef struct name_entry {
    const char *name; // NULL: free
    void *value;
} name_entry;

typedef struct name_map { // zero-initialise all but the arena
    arena *a;
    name_entry *entries;
    int n, cap;
} name_map;

// NULL: the name is absent.
void *name_map_get(const name_map *map, const char *name);
// Adds a name, or gives it another value.
void name_map_set(name_map *map, const char *name, void *value);
