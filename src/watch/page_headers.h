// What libmicrohttpd does not tell of the headers of a request: it ends texts at a NUL, and gives
// the first of several headers of one name.
#pragma once
#include <stdbool.h>

#include "watch/http_calls.h"

// The texts of a request line, where libmicrohttpd received them.
typedef struct page_line {
    const char *method;
    const char *target, *target_end; // as they were before it cut the query out
    const char *version;
} page_line;

// Whether there is a NUL in the request line or a header, or a header twice that must stand once.
bool page_headers_are_broken(struct MHD_Connection *connection, const page_line *line);
