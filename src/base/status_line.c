// Text as a terminal shows it: columns, shortening, and lines of fields that fit a width.
#include "base/status_line.h"

#include <string.h>
#include <utf8proc.h>

// Returns the bytes of the first character of `text`, and its columns in *columns; -1 columns: it
// is not printable.
static size_t next_character(const char *text, int *columns) {
    utf8proc_int32_t code;
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code);
    if (n <= 0) {
        *columns = -1;
        return 1;
    }
    const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    // Marks that turn the direction of the line, and separators of lines.
    const bool turns = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
                       code == 0x2028 || code == 0x2029;
    *columns = control || turns ? -1 : utf8proc_charwidth(code);
    return (size_t)n;
}

void text_add_clean(str *out, const char *text, bool lines) {
    for (size_t n; *text; text += n) {
        int columns;
        n = next_character(text, &columns);
        if (columns >= 0 || (lines && (*text == '\n' || *text == '\t')))
            str_add(out, text, n);
        else
            str_puts(out, "?");
    }
}

bool text_is_utf8(const char *text) {
    utf8proc_int32_t code;
    for (utf8proc_ssize_t n; *text; text += n)
        if ((n = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code)) <= 0) return false;
    return true;
}

// Returns the columns that clean UTF-8 takes (wide characters take two, combining ones none).
static int text_columns(const char *text) {
    int sum = 0;
    for (size_t n; *text; text += n) {
        int columns;
        n = next_character(text, &columns);
        sum += columns > 0 ? columns : 0;
    }
    return sum;
}

size_t text_fit(const char *text, int columns) {
    size_t done = 0;
    for (int sum = 0; text[done];) {
        int width;
        const size_t n = next_character(text + done, &width);
        sum += width > 0 ? width : 0;
        if (sum > columns) break;
        done += n;
    }
    return done;
}

// Returns the columns of the fields up to a rank, with the gaps between them.
static int columns_up_to(const log_field *fields, int n, int rank) {
    int sum = -2;
    for (int i = 0; i < n; i++)
        if (fields[i].rank <= rank && *fields[i].text) sum += text_columns(fields[i].text) + 2;
    return sum;
}

void text_add_fields(str *out, const log_field *fields, int n_fields, int columns,
        const char *ellipsis) {
    int rank = 0;
    for (int i = 0; i < n_fields; i++)
        if (fields[i].rank > rank) rank = fields[i].rank;
    while (rank > 0 && columns_up_to(fields, n_fields, rank) > columns)
        rank--;
    const char *gap = "";
    for (int i = 0; i < n_fields; i++) {
        if (fields[i].rank > rank || !*fields[i].text) continue;
        const int left = columns - (int)strlen(gap), wide = text_columns(fields[i].text);
        if (left <= 0) return;
        str_puts(out, gap);
        if (wide > left) {
            const int room = left - text_columns(ellipsis);
            str_add(out, fields[i].text, text_fit(fields[i].text, room > 0 ? room : 0));
            if (room >= 0) str_puts(out, ellipsis);
            return;
        }
        str_puts(out, fields[i].text);
        columns = left - wide;
        gap = "  ";
    }
}
