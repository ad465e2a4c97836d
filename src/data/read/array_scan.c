// A state machine that takes each byte once.
#include "data/read/array_scan.h"

enum { BEFORE, FIRST, VALUE, WITHIN, BETWEEN, AFTER }; // array_scan.state

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static array_event broken(array_scan *s, const char *why) {
    s->why = why;
    return ARRAY_BROKEN;
}

static array_event found(array_scan *s, size_t end) {
    s->state = BETWEEN;
    s->looked = 0; // the next window begins at its end
    s->end = end;
    return ARRAY_ELEMENT;
}

// One byte of an element; true: the element ends in front of it (*after: with it).
static bool step_within(array_scan *s, char c, bool *after) {
    *after = false;
    if (s->in_string) {
        if (s->escaped)
            s->escaped = false;
        else if (c == '\\')
            s->escaped = true;
        else if (c == '"')
            s->in_string = false;
        return false;
    }
    if (s->depth == 0 && (c == ',' || c == ']' || is_space(c))) return true; // of a bare value
    if (c == '"') s->in_string = true;
    if (c == '{' || c == '[') s->depth++;
    if (c == '}' || c == ']') *after = --s->depth <= 0;
    return *after;
}

array_event array_scan_next(array_scan *scan, const char *bytes, size_t n_bytes, bool whole) {
    for (; scan->looked < n_bytes; scan->looked++) {
        const char byte = bytes[scan->looked];
        bool after;
        if (scan->state == WITHIN) {
            if (step_within(scan, byte, &after)) return found(scan, scan->looked + after);
            continue;
        }
        if (is_space(byte)) continue;
        if (scan->state == BEFORE && byte == '[') {
            scan->state = FIRST;
        } else if (scan->state == BETWEEN && byte == ',') {
            scan->state = VALUE;
        } else if ((scan->state == BETWEEN || scan->state == FIRST) && byte == ']') {
            scan->state = AFTER;
        } else if ((scan->state == FIRST || scan->state == VALUE) && byte != ',' && byte != ']' &&
                   byte != '}') {
            scan->state = WITHIN;
            scan->begin = scan->looked;
            scan->depth = 0;
            scan->in_string = scan->escaped = false;
            step_within(scan, byte, &after); // which a first byte never ends
        } else {
            return broken(scan, scan->state == BETWEEN ? "no comma after it"
                                : scan->state == AFTER ? "there is more text after the array"
                                                       : "no value where one is expected");
        }
    }
    if (!whole) return ARRAY_MORE;
    return scan->state == AFTER ? ARRAY_END : broken(scan, "the file ends within the array");
}
