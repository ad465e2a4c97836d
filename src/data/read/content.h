// Detects the format of a file from its first bytes, for standard input and files whose extension
// is unknown.
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum content_mark { MARK_NONE, MARK_UTF8, MARK_UTF16 } content_mark;

// Returns the byte order mark at the beginning, and MARK_UTF16 also for text that is UTF-16 without
// a mark. MARK_UTF8 has three bytes.
content_mark content_mark_of(const char *p, size_t n);
// Returns whether it is an Arrow stream by the mark before its first message, or a file by its
// magic number.
bool content_is_arrow(const char *p, size_t n);
bool content_is_parquet(const char *p, size_t n);
enum { CONTENT_BYTES = 262 }; // content_foreign looks at no more than these first bytes
// Returns the name of the format if drover does not read it and it is not text; NULL: no such
// format was detected. *unpack: the command that extracts text from it; NULL: there is none.
const char *content_foreign(const char *p, size_t n, const char **unpack);
// Returns whether the first line that is not blank is a JSON object, or may become one if the line
// is not complete yet. `whole`: these bytes are the whole file.
bool content_is_json_lines(const char *p, size_t n, bool whole);
// Returns whether it is one array of objects, as [{"instruction": ...
bool content_is_json_array(const char *p, size_t n);
