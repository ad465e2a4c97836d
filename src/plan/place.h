// Places buffers with known sizes and lifetimes in one arena.
#pragma once
#include <stdint.h>

typedef struct place_item { // a buffer of `bytes` that lives from first to last, both included
    int64_t bytes;
    int first, last;
    int id;         // the caller's
    int64_t offset; // result
} place_item;

// Sets every offset and reorders the items. Times are 0 .. n_times - 1. Returns the end of the
// highest item. `probes` (may be NULL) counts the intervals examined, for tests of complexity.
int64_t place_items(place_item *items, int n, int n_times, int64_t *probes);
