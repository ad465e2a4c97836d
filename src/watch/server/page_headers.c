// Headers are in the connection's memory as they were received, with NULs instead of the bytes that
// separate them. In libmicrohttpd 0.9 additional NULs between them come from the client; since 1.0
// it refuses such requests itself, and texts elsewhere in memory are trusted.
#include "watch/server/page_headers.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { MAX_GAP = 1 << 15 }; // more than all headers together

static const char *const once[] = {"Host", "Origin", "Authorization", "Content-Length"};
_Static_assert(sizeof once / sizeof *once == N_ONCE, "each has a count");

// Returns whether there is more between two texts than what separates them: at most `most` NULs,
// which replace colons and line ends, and blanks.
static bool has_more(const char *end, const char *next, int most) {
    const uintptr_t from = (uintptr_t)end, to = (uintptr_t)next;
    int nuls = 0;
    if (to < from || to - from > MAX_GAP) return false;
    for (const char *p = end; p < next; p++) {
        nuls += *p == 0;
        if (*p && !strchr(" \t\r\n", *p)) return true;
    }
    return nuls > most;
}

void page_headers_begin(page_headers *self, const page_line *line) {
    *self = (page_headers){.end = line->version + strlen(line->version)};
    self->broken = has_more(line->method + strlen(line->method), line->target, 1) ||
                   has_more(line->target_end, line->version, 1);
}

void page_headers_take(page_headers *self, const char *name, const char *value) {
    self->broken |= has_more(self->end, name, 2); // CR and LF
    for (int i = 0; i < N_ONCE; i++)
        self->broken |= strcasecmp(name, once[i]) == 0 && self->seen[i]++ > 0;
    if (!value) return;
    self->broken |= has_more(name + strlen(name), value, 1); // the colon
    self->end = value + strlen(value);
}

bool page_headers_end(page_headers *self, const char *body) {
    return self->broken || (body && has_more(self->end, body, 4));
}

static enum MHD_Result take(void *ctx, enum MHD_ValueKind kind DRV_UNUSED, const char *name,
        const char *value) {
    page_headers_take(ctx, name, value);
    return MHD_YES;
}

bool page_headers_are_broken(struct MHD_Connection *connection, const page_line *line) {
    const union MHD_ConnectionInfo *info =
            http->get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    page_headers headers;
    page_headers_begin(&headers, line);
    http->get_connection_values(connection, MHD_HEADER_KIND, take, &headers);
    return page_headers_end(&headers, info ? line->method + info->header_size : NULL);
}
