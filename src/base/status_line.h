// Text as a terminal shows it: columns, shortening, and lines of fields that fit a width.
#pragma once
#include <stddef.h>

#include "base/log.h"
#include "base/str.h"

// Appends `text` so that no terminal takes any of it for a command: control characters and broken
// UTF-8 become "?"; line feeds and tabs stay when `lines`.
void text_add_clean(str *out, const char *text, bool lines);
bool text_is_utf8(const char *text);
// Returns the bytes of the longest beginning of `text` that takes at most `columns`.
size_t text_fit(const char *text, int columns);

// Appends the fields that fit into `columns`, two spaces apart; `ellipsis` ends a shortened one.
// Calls nothing but functions that are safe in a signal handler when `out` has room for all.
void text_add_fields(str *out, const log_field *fields, int n_fields, int columns,
        const char *ellipsis);
