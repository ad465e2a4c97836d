// Text as a terminal shows it: columns, shortening, and lines of fields that fit a width.
#pragma once
#include <stddef.h>

#include "base/log.h"
#include "base/str.h"

// Appends `text` in a form that no terminal takes for a command: control characters and broken
// UTF-8 become "?", except that line feeds and tabs stay if `lines`.
void text_add_clean(str *out, const char *text, bool lines);
bool text_is_utf8(const char *text);
// Returns the length in bytes of the longest beginning of `text` that takes at most `columns`.
size_t text_fit(const char *text, int columns);

// Appends the fields that fit into `columns`, two spaces apart; `ellipsis` ends a shortened one.
// Safe in a signal handler if `out` has room for all of them.
void text_add_fields(str *out, const log_field *fields, int n_fields, int columns,
        const char *ellipsis);
