// The elements of one JSON array that a whole file is ([{...}, {...}]), found as its bytes come in.
// Only brackets, commas and strings are examined; the caller parses the elements.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum array_event {
    ARRAY_MORE,    // the window ends within the element: ask again with a longer one
    ARRAY_ELEMENT, // at [begin, end) of the window
    ARRAY_END,     // the array is closed
    ARRAY_BROKEN   // `why` says how
} array_event;

typedef struct array_scan { // {0}: in front of the array
    int state;              // the token that is expected next
    int64_t depth;          // brackets that are open in the element
    bool in_string, escaped;
    size_t begin, end; // the element's bytes in the window
    size_t looked;     // bytes of the window that were passed
    const char *why;
} array_scan;

// The window of n_bytes bytes begins where the last element ended, or at the front of the file. It
// may move from call to call, and grows until an element is there. `whole`: no bytes come after it.
array_event array_scan_next(array_scan *scan, const char *bytes, size_t n_bytes, bool whole);
