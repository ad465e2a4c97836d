// Checks what libmicrohttpd does not tell of the headers of a request: it ends texts at a NUL, and
// gives the first of several headers of one name.
#pragma once
#include <stdbool.h>

#include "watch/server/http_calls.h"

// The texts of a request line, where libmicrohttpd received them.
typedef struct page_line {
    const char *method;
    const char *target, *target_end; // as they were before it cut the query out
    const char *version;
} page_line;

// Returns whether there is a NUL in the request line or a header, or a header twice that must stand
// once.
bool page_headers_are_broken(struct MHD_Connection *connection, const page_line *line);

// The same without a connection: begin, each header in the order in which libmicrohttpd has them
// (value NULL: none), end. Texts are read up to their NUL, and what lies between one and the next.
enum { N_ONCE = 4 }; // Host, Origin, Authorization, Content-Length
typedef struct page_headers {
    const char *end; // of the text before
    int seen[N_ONCE];
    bool broken;
} page_headers;
void page_headers_begin(page_headers *self, const page_line *line);
void page_headers_take(page_headers *self, const char *name, const char *value);
bool page_headers_end(page_headers *self, const char *body); // body NULL: unknown
