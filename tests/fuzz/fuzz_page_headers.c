// The bytes of a request as libmicrohttpd 0.9 leaves them: texts end at the byte that parted them,
// which it has made a NUL. A NUL that the caller sent, or a second Host, is always found.
#include "fuzz.h"

#include "watch/server/page_headers.h"

// Cuts what is at *rest at the first `part`, as libmicrohttpd does; the text before it, or NULL.
static char *cut(char **rest, const char *end, const char *part) {
    char *text = *rest, *at = memmem(text, (size_t)(end - text), part, strlen(part));
    if (!at) return NULL;
    memset(at, 0, strlen(part));
    *rest = at + strlen(part);
    return text;
}

static char *skip_blanks(char *text) {
    return text + strspn(text, " \t");
}

// Whether the headers of a request whose line was cut already are broken; -1: they do not end.
static int walk(page_headers *headers, char *rest, const char *end) {
    for (char *line; (line = cut(&rest, end, "\r\n")) != NULL;) {
        if (rest - line == 2) return page_headers_end(headers, rest);
        char *colon = strchr(line, ':'); // where a NUL hides it, the header has no value
        if (colon) *colon = 0;
        page_headers_take(headers, line, colon ? skip_blanks(colon + 1) : NULL);
    }
    return -1;
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    char *copy = malloc(n_bytes + 1), *rest = copy;
    memcpy(copy, bytes, n_bytes);
    copy[n_bytes] = 0;
    const char *end = copy + n_bytes, *head = memmem(bytes, n_bytes, "\r\n\r\n", 4);
    char *method = cut(&rest, end, " "), *target = method ? cut(&rest, end, " ") : NULL;
    char *version = target ? cut(&rest, end, "\r\n") : NULL;
    if (version && head) {
        page_headers headers;
        page_headers_begin(&headers,
                &(page_line){method, target, target + strlen(target), version});
        const int broken = walk(&headers, rest, end);
        const size_t n_head = (size_t)(head - (const char *)bytes);
        DRV_ASSERT(broken != 0 || !memchr(bytes, 0, n_head), "a NUL that was sent");
        DRV_ASSERT(broken != 0 || headers.seen[0] < 2, "one Host");
    }
    free(copy);
}
