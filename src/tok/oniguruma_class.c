// Translates characters and classes of characters. Classes become sets of code points, which PCRE2
// gets as ranges, or as its own properties if these match no more than Oniguruma's.
#include <stdlib.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tok/oniguruma_internal.h"
#include "tok/unicode.h"

// A class that is being read. `properties` has the \p{...} that are part of the set, as PCRE2
// writes them: ranges alone would be right too, but hundreds of them are slow.
typedef struct onig_set {
    code_set *set;
    str properties;
    bool ranges_only; // ignore `properties`: an intersection, or a class in the class
} onig_set;

static bool is_letter(uint32_t cp) {
    return (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
}

static bool is_sign(uint32_t cp) { // ASCII, printable, neither letter nor digit
    return cp >= 0x20 && cp < 0x7F && !is_letter(cp) && !(cp >= '0' && cp <= '9');
}

bool onig_names_class(char letter) {
    return letter && strchr("dDsSwWhHpP", letter);
}

static drv_status read_hex(onig *tr, const char *from, int min, int max, uint32_t *cp) {
    int n = 0;
    *cp = 0;
    for (; n < max; n++, tr->p++) {
        const char c = *tr->p, low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *cp = *cp << 4 | (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            *cp = *cp << 4 | (uint32_t)(low - 'a' + 10);
        else
            break;
    }
    if (n < min || *cp >= N_CODE_POINTS || (*cp >= 0xD800 && *cp <= 0xDFFF))
        return onig_refuse(tr, from, "a number that is not a code point");
    return DRV_OK;
}

drv_status onig_escaped(onig *tr, uint32_t *cp) {
    static const char letters[] = "tnvfrae", codes[] = "\t\n\v\f\r\a\x1B";
    const char *from = tr->p - 1;
    const char letter = *tr->p;
    const char *known = letter ? strchr(letters, letter) : NULL;
    if (known) {
        *cp = (uint32_t)codes[known - letters];
    } else if (is_sign((unsigned char)letter)) {
        *cp = (unsigned char)letter;
    } else if (letter == 'u') {
        tr->p++;
        return read_hex(tr, from, 4, 4, cp);
    } else if (letter == 'x' && tr->p[1] == '{') {
        tr->p += 2;
        DRV_TRY(read_hex(tr, from, 1, 6, cp));
        if (*tr->p != '}') return onig_refuse(tr, from, "this escape");
    } else if (letter == 'x') {
        tr->p++;
        DRV_TRY(read_hex(tr, from, 2, 2, cp));
        return *cp < 0x80 ? DRV_OK : onig_refuse(tr, from, "a byte that is not a character");
    } else {
        return onig_refuse(tr, from, letter ? "this escape" : "a backslash at the end");
    }
    tr->p++;
    return DRV_OK;
}

// Returns whether a character may have another case. Signs and spaces have none in any Unicode.
static bool has_case(uint32_t cp) {
    const int c = cp_categories()[cp];
    return !(c >= CAT_PC && c <= CAT_SC) && !(c >= CAT_ZS && c <= CAT_ZP) &&
           !(cp < 0x80 && !is_letter(cp));
}

// Adds the other cases of ASCII letters (Unicode, CaseFolding.txt, status C).
static void fold_set(code_set *s) {
    for (uint32_t upper = 'A'; upper <= 'Z'; upper++) {
        if (!code_set_has(s, upper) && !code_set_has(s, upper | 0x20)) continue;
        code_set_add(s, upper, upper);
        code_set_add(s, upper | 0x20, upper | 0x20);
        if (upper == 'S') code_set_add(s, 0x17F, 0x17F);
        if (upper == 'K') code_set_add(s, 0x212A, 0x212A);
    }
}

// Adds the characters that PCRE2's properties match.
static drv_status pcre2_members(onig *tr, const char *properties, code_set *out) {
    enum { BLOCK = 1024 };
    int code;
    PCRE2_SIZE where;
    str pattern = {0};
    str_printf(&pattern, "[%s]+", properties);
    pcre2_code *re =
            pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, PCRE2_UTF, &code, &where, NULL);
    str_free(&pattern);
    if (!re) return onig_refuse(tr, tr->p, "by this PCRE2, a property of this class");
    pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    pcre2_match_data *hit = pcre2_match_data_create_from_pattern(re, NULL);
    unsigned char *text = mem_alloc(4 * BLOCK);
    for (uint32_t first = 0; first < N_CODE_POINTS; first += BLOCK) {
        if (first >= 0xD800 && first <= 0xDFFF) continue; // surrogates fill whole blocks
        // Planes 4 to 13 have no characters, 15 and 16 are for private use: one tells for all.
        const bool alike = (first >= 0x40000 && first < 0xE0000) || first >= 0xF0000;
        size_t n = 0;
        for (uint32_t cp = first; cp < first + (alike ? 1 : BLOCK); cp++)
            n += (size_t)utf8_put(cp, text + n);
        for (size_t from = 0; pcre2_match(re, text, n, from, PCRE2_NO_UTF_CHECK, hit, NULL) > 0;) {
            const unsigned char *p = text + pcre2_get_ovector_pointer(hit)[0];
            from = pcre2_get_ovector_pointer(hit)[1];
            while (p < text + from) {
                const uint32_t cp = utf8_next(&p);
                code_set_add(out, cp, alike ? cp + BLOCK - 1 : cp);
            }
        }
    }
    free(text);
    pcre2_match_data_free(hit);
    pcre2_code_free(re);
    return DRV_OK;
}

// Writes the set, or its complement.
static drv_status print_set(onig *tr, const onig_set *cls, bool negated) {
    str_puts(tr->out, negated ? "[^" : "[");
    const size_t begin = tr->out->n;
    if (cls->properties.n && !cls->ranges_only) {
        code_set *theirs = ARENA_NEW(tr->mem, code_set), *more = ARENA_NEW(tr->mem, code_set);
        DRV_TRY(pcre2_members(tr, cls->properties.p, theirs));
        *more = *theirs;
        code_set_subtract(more, cls->set);
        if (code_set_is_empty(more)) { // a newer PCRE2 may know more
            *more = *cls->set;
            code_set_subtract(more, theirs);
            str_add(tr->out, cls->properties.p, cls->properties.n);
            code_set_print(more, tr->out);
        }
    }
    if (tr->out->n == begin) code_set_print(cls->set, tr->out);
    if (tr->out->n == begin) { // the empty set
        tr->out->n = begin - (negated ? 2 : 1);
        str_puts(tr->out, negated ? "(?s:." : "(?!");
        str_puts(tr->out, ")");
        return DRV_OK;
    }
    str_puts(tr->out, "]");
    return DRV_OK;
}

// Reads \p{NAME}; tr->p is at its "p". The set is that of NAME; *negated receives the negation.
static drv_status read_property(onig *tr, onig_set *cls, bool *negated) {
    const char *from = tr->p - 1, *name = tr->p + 1;
    *negated = *tr->p == 'P';
    if (*name++ != '{') return onig_refuse(tr, from, "a property without braces");
    if (*name == '^') {
        if (*negated) return onig_refuse(tr, from, "a property that is negated twice");
        *negated = true;
        name++;
    }
    const char *end = strchr(name, '}');
    if (!end || !code_set_add_property(cls->set, name, (size_t)(end - name)))
        return onig_refuse(tr, from, "this property");
    str_puts(&cls->properties, "\\p{");
    for (const char *c = name; c < end; c++)
        if (*c != ' ' && *c != '_' && *c != '-') str_add(&cls->properties, c, 1);
    str_puts(&cls->properties, "}");
    if (end - name > 2) cls->ranges_only = true; // PCRE2 has the short names, and other scripts
    tr->p = end + 1;
    return DRV_OK;
}

// Reads a class of one escape; tr->p is after the backslash. *negated receives the negation.
static drv_status read_named(onig *tr, onig_set *cls, bool brackets, bool *negated) {
    const char letter = *tr->p;
    if (tr->fold) return onig_refuse(tr, tr->p - 1, "without regard to case, a class by name");
    if (letter == 'p' || letter == 'P') return read_property(tr, cls, negated);
    *negated = letter < 'a';
    switch (letter | 0x20) {
    case 'd':
        code_set_add_property(cls->set, "nd", 2);
        str_puts(&cls->properties, "\\p{Nd}");
        break;
    case 's':
        code_set_add_spaces(cls->set);
        break;
    case 'w':
        code_set_add_word(cls->set, brackets);
        str_puts(&cls->properties, "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}");
        break;
    default: // \h
        code_set_add(cls->set, '0', '9');
        code_set_add(cls->set, 'A', 'F');
        code_set_add(cls->set, 'a', 'f');
    }
    tr->p++;
    return DRV_OK;
}

static void free_properties(onig_set *cls) {
    str_free(&cls->properties);
}

static drv_status read_brackets(onig *tr, onig_set *cls, bool *negated);

// Adds a class that stands inside brackets.
static drv_status add_class(onig *tr, onig_set *cls) {
    onig_set inner = {.set = ARENA_NEW(tr->mem, code_set)};
    bool negated = false, nested = *tr->p == '[';
    if (tr->fold) return onig_refuse(tr, tr->p, "without regard to case, a class in a class");
    if (!nested) tr->p++;
    DRV_TRY(onig_enter(tr));
    const drv_status status =
            nested ? read_brackets(tr, &inner, &negated) : read_named(tr, &inner, true, &negated);
    tr->depth--;
    if (status == DRV_OK) {
        if (negated) code_set_complement(inner.set);
        code_set_unite(cls->set, inner.set);
        cls->ranges_only |= nested || negated || inner.ranges_only;
        if (!cls->ranges_only && inner.properties.n)
            str_add(&cls->properties, inner.properties.p, inner.properties.n);
    }
    free_properties(&inner);
    return status;
}

static drv_status read_char(onig *tr, uint32_t *cp) {
    if (*tr->p == '\\') {
        tr->p++;
        return onig_escaped(tr, cp);
    }
    const unsigned char *p = (const unsigned char *)tr->p;
    *cp = utf8_next(&p);
    tr->p = (const char *)p;
    return DRV_OK;
}

// Adds one character or range inside brackets.
static drv_status add_range(onig *tr, onig_set *cls) {
    const char *from = tr->p;
    uint32_t first, last;
    DRV_TRY(read_char(tr, &first));
    last = first;
    if (*tr->p == '-' && tr->p[1] != ']') {
        tr->p++;
        if (!*tr->p || *tr->p == '[' || *tr->p == '-' || *tr->p == '&' ||
                (*tr->p == '\\' && onig_names_class(tr->p[1])))
            return onig_refuse(tr, from, "this range");
        DRV_TRY(read_char(tr, &last));
        if (last < first) return onig_refuse(tr, from, "a range that ends before it begins");
        if (*tr->p == '-' && tr->p[1] != ']') return onig_refuse(tr, from, "a '-' after a range");
    }
    if (tr->fold)
        for (uint32_t cp = first; cp <= last; cp++)
            if (has_case(cp) && !is_letter(cp))
                return onig_refuse(tr, from, "without regard to case, letters beyond ASCII");
    code_set_add(cls->set, first, last);
    return DRV_OK;
}

// Reads the items up to "]" or "&&".
static drv_status read_row(onig *tr, onig_set *cls) {
    const char *begin = tr->p;
    while (*tr->p && *tr->p != ']' && strncmp(tr->p, "&&", 2) != 0) {
        const char *from = tr->p;
        if (*from == '-' && !((from == begin && from[1] != '-') || from[1] == ']'))
            return onig_refuse(tr, from, "a '-' in this place");
        if (*from == '[' && from[1] == ':') return onig_refuse(tr, from, "a POSIX bracket");
        const bool class = *from == '[' || (*from == '\\' && onig_names_class(from[1]));
        DRV_TRY(class ? add_class(tr, cls) : add_range(tr, cls));
    }
    if (!*tr->p) return onig_refuse(tr, begin, "a '[' that is not closed");
    if (tr->p == begin) return onig_refuse(tr, begin, "a class without members");
    if (*tr->p == '&' && tr->p[-1] == '-') return onig_refuse(tr, tr->p, "a '-' in this place");
    return DRV_OK;
}

// Reads [ ... ]; tr->p is at the bracket. *negated receives the negation.
static drv_status read_brackets(onig *tr, onig_set *cls, bool *negated) {
    const char *from = tr->p++;
    *negated = *tr->p == '^';
    tr->p += *negated;
    DRV_TRY(read_row(tr, cls));
    while (*tr->p == '&') {
        tr->p += 2;
        onig_set row = {.set = ARENA_NEW(tr->mem, code_set)};
        drv_status status =
                tr->fold ? onig_refuse(tr, from, "without regard to case, &&") : onig_enter(tr);
        if (status == DRV_OK) status = read_row(tr, &row);
        tr->depth--;
        free_properties(&row);
        DRV_TRY(status);
        code_set_intersect(cls->set, row.set);
        cls->ranges_only = true;
    }
    tr->p++;
    if (!tr->fold) return DRV_OK;
    int n_letters = 0;
    for (uint32_t cp = 'A'; cp <= 'z'; cp++)
        n_letters += is_letter(cp) && code_set_has(cls->set, cp);
    if (*negated ||
            n_letters == 1) // Oniguruma makes one letter a string, which may fold with others
        return onig_refuse(tr, from, "without regard to case, this class");
    fold_set(cls->set);
    return DRV_OK;
}

drv_status onig_class(onig *tr) {
    onig_set s = {.set = ARENA_NEW(tr->mem, code_set)};
    bool negated = false;
    DRV_TRY(onig_enter(tr));
    drv_status status = DRV_OK;
    if (*tr->p == '.') {
        tr->p++;
        negated = true;
        if (!tr->dot_all) code_set_add(s.set, '\n', '\n');
    } else if (*tr->p == '[') {
        status = read_brackets(tr, &s, &negated);
    } else {
        tr->p++;
        status = read_named(tr, &s, false, &negated);
    }
    if (status == DRV_OK) status = print_set(tr, &s, negated);
    free_properties(&s);
    tr->depth--;
    return status;
}

drv_status onig_literal(onig *tr, const char *from, uint32_t cp) {
    if (tr->fold && has_case(cp)) {
        if (!is_letter(cp))
            return onig_refuse(tr, from, "without regard to case, a letter beyond ASCII");
        const uint32_t lower = cp | 0x20;
        str_printf(tr->out, "[%c%c%s]", (char)(lower - 0x20), (char)lower,
                lower == 's'   ? "\\x{17F}"
                : lower == 'k' ? "\\x{212A}"
                               : "");
        return DRV_OK;
    }
    if (is_letter(cp) || (cp >= '0' && cp <= '9') || cp == ' ')
        str_printf(tr->out, "%c", (char)cp);
    else
        str_printf(tr->out, "\\x{%X}", cp);
    return DRV_OK;
}
