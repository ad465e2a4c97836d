// Objects without the members that are null.
#include "data/read/json_row.h"

#include <string.h>

// The row, a message, and the calls of tools, whose nulls templates print.
enum { FIRST_PRINTED_DEPTH = 3 };

void json_members_begin(json_row_notes *notes, json_members *m, str *out) {
    *m = (json_members){.notes = notes, .out = out};
    notes->depth++;
    str_puts(out, "{");
}

void json_members_name(json_members *m, const char *name) {
    m->before = m->out->n;
    str_puts(m->out, m->n > 0 ? "," : "");
    str_add_json(m->out, name, strlen(name));
    str_puts(m->out, ":");
    m->value = m->out->n;
}

void json_members_added(json_members *m) {
    static const char null[] = "null";
    const size_t n = sizeof null - 1;
    if (m->out->n - m->value != n || memcmp(m->out->p + m->value, null, n) != 0) {
        m->n++;
        return;
    }
    m->out->n = m->before;
    m->out->p[m->before] = 0;
    m->notes->nulls_cut |= m->notes->depth >= FIRST_PRINTED_DEPTH;
}

void json_members_end(json_members *m) {
    m->notes->depth--;
    str_puts(m->out, "}");
}
