// Marks, magic numbers and first lines by which content is recognised.
#include "data/read/content.h"

#include <string.h>

#include "base/json_cursor.h"

content_mark content_mark_of(const char *p, size_t n) {
    if (n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) return MARK_UTF8;
    if (n >= 2 && (memcmp(p, "\xFF\xFE", 2) == 0 || memcmp(p, "\xFE\xFF", 2) == 0))
        return MARK_UTF16;
    return MARK_NONE;
}

bool content_is_parquet(const char *p, size_t n) {
    return n >= 4 && memcmp(p, "PAR1", 4) == 0;
}

bool content_is_json_lines(const char *p, size_t n, bool whole) {
    const char *end = p + n;
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    json_cursor c = {.p = p, .end = newline ? newline : end};
    if (jc_peek(&c) != '{') return false;
    if (newline || whole) return jc_skip(&c) && jc_peek(&c) == 0;
    // A long line: its beginning is an object with a key.
    bool first = true;
    return jc_next(&c, '{', &first, NULL) && !c.error;
}

bool content_is_json_array(const char *p, size_t n) {
    json_cursor c = {.p = p, .end = p + n};
    if (jc_peek(&c) != '[') return false;
    c.p++;
    if (jc_peek(&c) != '{') return false;
    c.p++;
    const char next = jc_peek(&c);
    return next == '"' || next == '}' || next == 0;
}
