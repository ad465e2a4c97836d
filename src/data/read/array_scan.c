// A state machine over the bytes, each of which is looked at once.
#include "data/read/array_scan.h"

#include <string.h>

enum { BEFORE, FIRST, VALUE, WITHIN, BETWEEN, AFTER }; // array_scan.place

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static array_event broken(array_scan *s, const char *why) {
    s->why = why;
    return ARRAY_BROKEN;
}

static array_event found(array_scan *s, size_t end) {
    s->place = BETWEEN;
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

array_event array_scan_next(array_scan *s, const char *p, size_t n, bool whole) {
    for (; s->looked < n; s->looked++) {
        const char c = p[s->looked];
        bool after;
        if (s->place == WITHIN) {
            if (step_within(s, c, &after)) return found(s, s->looked + after);
            continue;
        }
        if (is_space(c)) continue;
        if (s->place == BEFORE && c == '[') {
            s->place = FIRST;
        } else if (s->place == BETWEEN && c == ',') {
            s->place = VALUE;
        } else if ((s->place == BETWEEN || s->place == FIRST) && c == ']') {
            s->place = AFTER;
        } else if ((s->place == FIRST || s->place == VALUE) && c != ',' && c != ']' && c != '}') {
            s->place = WITHIN;
            s->begin = s->looked;
            s->depth = 0;
            s->in_string = s->escaped = false;
            step_within(s, c, &after); // which a first byte never ends
        } else {
            return broken(s, s->place == BETWEEN ? "no comma after it"
                             : s->place == AFTER ? "there is more text after the array"
                                                 : "no value where one is expected");
        }
    }
    if (!whole) return ARRAY_MORE;
    return s->place == AFTER ? ARRAY_END : broken(s, "the file ends within the array");
}
