// Checks request headers for two faults that libmicrohttpd hides: it ends texts at a NUL, and
// returns only the first of several headers of one name.
#pragma once
#include <stdbool.h>

#include "watch/server/http_calls.h"

// The parts of a request line, where libmicrohttpd received them.
typedef struct page_line {
    const char *method;
    const char *target, *target_end; // as they were before the query was cut off
    const char *version;
} page_line;

// Returns whether the request line or a header contains a NUL, or a header that must be unique
// appears twice.
bool page_headers_are_broken(struct MHD_Connection *connection, const page_line *line);

// The same check without a connection: call begin, then take for each header in libmicrohttpd's
// order (value NULL: none), then end. It reads texts up to their NULs, and the bytes between them.
enum { N_ONCE = 4 }; // Host, Origin, Authorization, Content-Length
typedef struct page_headers {
    const char *end; // end of the previous text
    int seen[N_ONCE];
    bool broken;
} page_headers;
void page_headers_begin(page_headers *self, const page_line *line);
void page_headers_take(page_headers *self, const char *name, const char *value);
bool page_headers_end(page_headers *self, const char *body); // body NULL: not known
