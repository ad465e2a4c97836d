// Recognises what a file holds by its first bytes: for standard input and files whose ending says
// nothing.
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum content_mark { MARK_NONE, MARK_UTF8, MARK_UTF16 } content_mark;

// Returns the byte order mark at the front, MARK_UTF16 also for text that shows to be UTF-16
// without one. MARK_UTF8 has three bytes.
content_mark content_mark_of(const char *p, size_t n);
// Returns whether it is an Arrow stream by the mark before its first message, or a file by its
// magic number.
bool content_is_arrow(const char *p, size_t n);
bool content_is_parquet(const char *p, size_t n);
enum { CONTENT_BYTES = 262 }; // from the front, all that content_foreign looks at
// Returns a format that drover does not read and that would be nonsense as text; NULL: none that is
// known. `unpack`: the command that makes text of it, NULL: there is none.
const char *content_foreign(const char *p, size_t n, const char **unpack);
// Returns whether the first line that is not blank is a JSON object; of a line that is not all
// there yet: may become one. `whole`: the file has no more than these bytes.
bool content_is_json_lines(const char *p, size_t n, bool whole);
// Returns whether it is one array of objects, as [{"instruction": ...
bool content_is_json_array(const char *p, size_t n);
