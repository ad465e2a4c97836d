// A state machine that takes one byte after the other; inside quotes it jumps from quote to quote.
#include "data/read/csv_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum {
    FIELD_BEGIN, // before the first byte of a field
    PLAIN,       // in a field without quotes
    QUOTED,      // between quotes
    QUOTE,       // after a quote, which ends the field unless another one follows
    RETURN,      // after that quote and a carriage return: the row ends, or is broken
    BROKEN       // the rest of the line is skipped
};

static int state_after(const csv_scan *scan, char c) {
    switch (scan->state) {
    case FIELD_BEGIN:
        return c == '"' ? QUOTED : c == scan->delimiter ? FIELD_BEGIN : PLAIN;
    case PLAIN:
        return c == scan->delimiter ? FIELD_BEGIN : PLAIN;
    case QUOTED:
        return c == '"' ? QUOTE : QUOTED;
    case QUOTE:
        return c == '"' ? QUOTED : c == scan->delimiter ? FIELD_BEGIN : c == '\r' ? RETURN : BROKEN;
    default:
        return BROKEN;
    }
}

static csv_event found(csv_scan *scan, const char *bytes, size_t end, size_t next) {
    scan->end = end > 0 && bytes[end - 1] == '\r' ? end - 1 : end;
    scan->next = next;
    scan->state = FIELD_BEGIN;
    scan->looked = 0;
    return CSV_ROW;
}

csv_event csv_scan_next(csv_scan *scan, const char *bytes, size_t n_bytes, bool whole) {
    if (scan->looked == 0) scan->why = NULL;
    for (size_t i = scan->looked; i < n_bytes; i++) {
        if (scan->state == QUOTED) {
            const char *quote = memchr(bytes + i, '"', n_bytes - i);
            if (!quote) break;
            i = (size_t)(quote - bytes);
        } else if (bytes[i] == '\n') {
            return found(scan, bytes, i, i + 1);
        }
        const int before = scan->state;
        scan->state = state_after(scan, bytes[i]);
        if (scan->state == BROKEN && before != BROKEN)
            scan->why = "more text behind a closing quote, expected the delimiter or the row's end";
    }
    scan->looked = n_bytes;
    if (!whole) return CSV_MORE;
    if (n_bytes == 0) return CSV_END;
    if (scan->state == QUOTED) scan->why = "a quote is not closed before the end of the file";
    return found(scan, bytes, n_bytes, n_bytes);
}

// --- fields
// Appends the text of the field at `p`, without its quotes; returns where it ends.
static const char *add_field(str *text, char delimiter, const char *p, const char *end) {
    bool quoted = p < end && *p == '"';
    if (quoted) p++;
    while (p < end && (quoted || *p != delimiter)) {
        const char *stop = memchr(p, quoted ? '"' : delimiter, (size_t)(end - p));
        if (!stop) stop = end;
        str_add(text, p, (size_t)(stop - p));
        p = stop;
        if (!quoted || p == end) break;
        quoted = p + 1 < end && p[1] == '"'; // doubled: one of the text
        if (quoted) str_add(text, "\"", 1);
        p += quoted ? 2 : 1;
    }
    return p;
}

void csv_fields_read(csv_fields *fields, char delimiter, const char *row, size_t n_bytes) {
    const char *const end = row + n_bytes;
    fields->n = 0;
    str_clear(&fields->text);
    for (const char *p = row;; p++) { // behind a delimiter
        p = add_field(&fields->text, delimiter, p, end);
        MEM_GROW(fields->end, fields->n, fields->cap);
        fields->end[fields->n++] = fields->text.n;
        if (p == end) return;
    }
}

const char *csv_field(const csv_fields *fields, int i, size_t *n) {
    const size_t begin = i ? fields->end[i - 1] : 0;
    *n = fields->end[i] - begin;
    return fields->text.p ? fields->text.p + begin : "";
}

void csv_fields_free(csv_fields *fields) {
    str_free(&fields->text);
    free(fields->end);
    *fields = (csv_fields){0};
}
