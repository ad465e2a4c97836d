// Splits a file that is one JSON array ([{...}, {...}]) into its elements while its bytes arrive.
// The scan looks only at brackets, commas and strings; the caller parses the elements.
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

typedef struct array_scan { // {0}: before the array
    int state;              // the token that is expected next
    int64_t depth;          // open brackets within the element
    bool in_string, escaped;
    size_t begin, end; // the element's bytes in the window
    size_t looked;     // bytes of the window that have been scanned
    const char *why;
} array_scan;

// `bytes` is a window of the file that begins where the last element ended, or at the beginning of
// the file. It may move between calls, and the caller enlarges it until it contains an element.
// `whole`: the window reaches the end of the file.
array_event array_scan_next(array_scan *scan, const char *bytes, size_t n_bytes, bool whole);
