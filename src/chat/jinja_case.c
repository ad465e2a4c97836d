// Changes case as Python's str does, with Unicode's full mappings (SpecialCasing.txt): a character
// may become two or three, and a sigma at the end of a word has its own form. libutf8proc maps one
// character to one; the table of the rest is made by tools/case_mappings.py, whose --check compares
// all of this with Python.
#include <stdlib.h>
#include <utf8proc.h>

#include "chat/jinja_text_internal.h"

typedef struct case_mapping {
    int32_t code;
    const char *text[3]; // upper, title, lower: UTF-8
} case_mapping;

typedef enum case_class {
    CASE_IS_UPPER, // by property, without the category Lu
    CASE_IS_LOWER, // likewise, without Ll
    CASE_IS_IGNORABLE,
} case_class;

typedef struct case_range {
    int32_t first, last;
    case_class class;
} case_range;

enum { TO_UPPER, TO_TITLE, TO_LOWER };

// clang-format off
static const case_mapping mappings[] = {
#define CASE_MAPPING(code, upper, title, lower) {code, {upper, title, lower}},
#define CASE_RANGE(first, last, class)
#include "chat/case_mappings.inc"
#undef CASE_MAPPING
#undef CASE_RANGE
};
static const case_range ranges[] = {
#define CASE_MAPPING(code, upper, title, lower)
#define CASE_RANGE(first, last, class) {first, last, class},
#include "chat/case_mappings.inc"
#undef CASE_MAPPING
#undef CASE_RANGE
};
// clang-format on

static bool in_class(int32_t c, case_class class) {
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].first && c <= ranges[i].last && ranges[i].class == class) return true;
    return false;
}

static bool is_upper(int32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z';
    return utf8proc_category(c) == UTF8PROC_CATEGORY_LU || in_class(c, CASE_IS_UPPER);
}

static bool is_lower(int32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z';
    return utf8proc_category(c) == UTF8PROC_CATEGORY_LL || in_class(c, CASE_IS_LOWER);
}

static bool is_cased(int32_t c) {
    return is_upper(c) || is_lower(c) || utf8proc_category(c) == UTF8PROC_CATEGORY_LT;
}

// Returns whether a character, such as an accent, does not end a word before or after a sigma.
static bool is_ignorable(int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_SK || in_class(c, CASE_IS_IGNORABLE);
}

static void put_char(str *out, int32_t c) {
    char bytes[5];
    str_add(out, bytes, text_encode(c, bytes));
}

static int by_code(const void *a, const void *b) {
    return ((const case_mapping *)a)->code - ((const case_mapping *)b)->code;
}

static void put_mapped(str *out, int32_t c, int to) {
    const case_mapping key = {.code = c}, *row = NULL;
    if (c >= 0x80)
        row = bsearch(&key, mappings, sizeof mappings / sizeof *mappings, sizeof *mappings,
                by_code);
    if (row) {
        str_puts(out, row->text[to]);
        return;
    }
    put_char(out, to == TO_UPPER   ? utf8proc_toupper(c)
                  : to == TO_TITLE ? utf8proc_totitle(c)
                                   : utf8proc_tolower(c));
}

// Returns Unicode's Final_Sigma for the sigma at `at`: a cased letter stands before it and none
// after it, not counting ignorable characters. These are skipped once for the sigma on either side,
// so a text takes linear time.
static bool sigma_is_final(const value *text, size_t at) {
    int32_t c = 0;
    size_t length;
    bool found = false;
    for (size_t i = at; i > 0 && !found;) {
        i = text_char_before(text->s.p, i);
        c = text_char_at(text->s.p + i, text->s.n - i, &length);
        found = !is_ignorable(c);
    }
    if (!found || !is_cased(c)) return false;
    text_char_at(text->s.p + at, text->s.n - at, &length);
    for (size_t i = at + length; i < text->s.n; i += length) {
        c = text_char_at(text->s.p + i, text->s.n - i, &length);
        if (!is_ignorable(c)) return !is_cased(c);
    }
    return true;
}

static void put_lower(str *out, const value *text, size_t at, int32_t c) {
    if (c == 0x3A3)
        put_char(out, sigma_is_final(text, at) ? 0x3C2 : 0x3C3);
    else
        put_mapped(out, c, TO_LOWER);
}

void text_case(const value *v, text_case_kind kind, str *out) {
    bool inside = false; // of a word
    for (size_t i = 0, n; i < v->s.n; i += n) {
        const int32_t c = text_char_at(v->s.p + i, v->s.n - i, &n);
        if (kind == CASE_UPPER)
            put_mapped(out, c, TO_UPPER);
        else if ((kind == CASE_TITLE && !inside) || (kind == CASE_CAPITAL && i == 0))
            put_mapped(out, c, TO_TITLE);
        else
            put_lower(out, v, i, c);
        if (kind == CASE_TITLE) inside = is_cased(c);
    }
}
