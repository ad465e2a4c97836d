// Jinja's lexer: text, and the tokens inside {{ }} and {% %}.
#include "chat/jinja_lex.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct lexer {
    value_memory *m;
    const char *name, *begin, *p, *end; // p: the next character
    const char *counted;                // lines and columns were counted up to here
    source_position position;           // of `counted`
    bool line_starting; // the character before p ended a line, or p begins the template
    token *t;
    int n, cap;
} lexer;

static source_position position_of(lexer *l, const char *p) {
    for (; l->counted < p; l->counted++) {
        l->position.line += *l->counted == '\n';
        l->position.column += ((unsigned char)*l->counted & 0xC0) != 0x80; // of characters
        if (*l->counted == '\n') l->position.column = 1;
    }
    return l->position;
}

static drv_status fail_at(lexer *l, const char *p, const char *what) {
    l->counted = l->begin; // p may lie before what was counted
    l->position = (source_position){1, 1};
    const source_position position = position_of(l, p);
    return drv_fail(DRV_E_DATA, "%s:%d:%d: %s", l->name, position.line, position.column, what);
}

static drv_status add(lexer *l, token_kind kind, const char *p, size_t n, value constant) {
    if (l->n == l->cap) {
        void *bigger;
        l->cap = l->cap ? 2 * l->cap : 64;
        DRV_TRY(value_alloc(l->m, sizeof(token) * (size_t)l->cap, &bigger));
        if (l->n) memcpy(bigger, l->t, sizeof(token) * (size_t)l->n);
        l->t = bigger;
    }
    l->t[l->n++] = (token){.kind = kind,
            .p = p,
            .n = n,
            .position = position_of(l, p),
            .constant = constant};
    return DRV_OK;
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}
static bool begins(const lexer *l, const char *p, const char *text) {
    const size_t n = strlen(text);
    return (size_t)(l->end - p) >= n && memcmp(p, text, n) == 0;
}

// Adds the text before a tag, without what the tag strips: all white space before "{%-", and the
// blanks of its own line before "{%" and "{#".
static drv_status add_text(lexer *l, const char *p, const char *tag, bool print) {
    const char *end = tag, sign = tag + 2 < l->end ? tag[2] : 0;
    if (tag < l->end && sign == '-') {
        while (end > p && is_space(end[-1]))
            end--;
    } else if (tag < l->end && sign != '+' && !print) {
        const char *begin = tag;
        while (begin > p && begin[-1] != '\n' && is_space(begin[-1]))
            begin--;
        if (begin > p ? begin[-1] == '\n' : l->line_starting) end = begin;
    }
    if (end == p) return DRV_OK;
    return add(l, TOKEN_TEXT, p, (size_t)(end - p), value_none());
}

// Skips what the end of a tag strips: "-%}" all white space, "%}" one end of line (not "}}").
static void after_tag(lexer *l, char sign, bool print) {
    const char *from = l->p;
    if (sign == '-')
        while (l->p < l->end && is_space(*l->p))
            l->p++;
    else if (sign != '+' && !print && l->p < l->end && *l->p == '\n')
        l->p++;
    l->line_starting = l->p > from && l->p[-1] == '\n';
}

// --- inside a tag

static int hex(const char *p, int n, const char *end) {
    int v = 0;
    for (int i = 0; i < n; i++) {
        if (p + i >= end) return -1;
        const char c = p[i];
        const int d = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
        if (d < 0 || v > 0x10FFFF) return -1;
        v = v * 16 + d;
    }
    return v;
}

// Decodes one of Python's escapes; *cursor is after the backslash. Unknown ones stay as they are.
static drv_status unescape(lexer *lex, const char **cursor, const char *end, str *out) {
    static const char letters[] = "abfnrtv\\'\"", codes[] = "\a\b\f\n\r\t\v\\'\"";
    const char letter = **cursor, *known = letter ? strchr(letters, letter) : NULL;
    int code = -1;
    if (letter == '\n') {
        (*cursor)++;
        return DRV_OK;
    }
    if (known) {
        str_add(out, &codes[known - letters], 1);
        (*cursor)++;
        return DRV_OK;
    }
    if (letter == 'x' || letter == 'u' || letter == 'U') {
        const int n = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
        code = hex(*cursor + 1, n, end);
        if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            return fail_at(lex, *cursor, "a string has a broken escape");
        *cursor += n + 1;
    } else if (letter >= '0' && letter <= '7') {
        code = 0;
        for (int i = 0; i < 3 && *cursor < end && **cursor >= '0' && **cursor <= '7'; i++)
            code = code * 8 + *(*cursor)++ - '0';
    } else if (letter == 'N') {
        return fail_at(lex, *cursor, "a character by its name, \\N{...}, is not supported");
    } else {
        str_puts(out, "\\");
        return DRV_OK;
    }
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char(code, bytes);
    str_add(out, bytes, (size_t)n);
    return DRV_OK;
}

static drv_status lex_string(lexer *l) {
    const char quote = *l->p, *begin = l->p, *p = l->p + 1;
    str text = {0};
    drv_status status = DRV_OK;
    while (status == DRV_OK && p < l->end && *p != quote) {
        if (*p == '\\' && p + 1 < l->end) {
            p++;
            status = unescape(l, &p, l->end, &text);
        } else {
            str_add(&text, p++, 1);
        }
    }
    if (status == DRV_OK && p >= l->end) status = fail_at(l, begin, "a string does not end");
    value constant = value_none();
    if (status == DRV_OK) status = value_copy_string(l->m, text.p, text.n, &constant);
    str_free(&text);
    DRV_TRY(status);
    l->p = p + 1;
    return add(l, TOKEN_STRING, begin, (size_t)(l->p - begin), constant);
}

static drv_status lex_number(lexer *lex) {
    char text[64];
    size_t n_text = 0;
    const char *begin = lex->p, *next_char = lex->p;
    const bool prefixed =
            *next_char == '0' && next_char + 1 < lex->end && strchr("xXoObB", next_char[1]);
    bool real = false;
    for (; next_char < lex->end; next_char++) {
        const char next = next_char + 1 < lex->end ? next_char[1] : 0;
        if (!prefixed && *next_char == '.' && is_digit(next) && !real)
            real = true;
        else if (!prefixed && (*next_char == 'e' || *next_char == 'E') &&
                 (is_digit(next) || next == '+' || next == '-'))
            real = true;
        else if ((*next_char == '+' || *next_char == '-') &&
                 !(real && (next_char[-1] == 'e' || next_char[-1] == 'E')))
            break;
        else if (!is_digit(*next_char) && *next_char != '_' && *next_char != '+' &&
                 *next_char != '-' && !(prefixed && is_letter(*next_char)))
            break;
        if (*next_char == '_') { // a single one, between digits
            const bool after = next_char > begin && (is_digit(next_char[-1]) || prefixed);
            if (!after || next_char[-1] == '_' ||
                    !(is_digit(next) || (prefixed && is_letter(next))) || next == '_')
                return fail_at(lex, begin, "a '_' in a number that is not between digits");
            continue;
        }
        if (n_text + 1 >= sizeof text) return fail_at(lex, begin, "a number is too long");
        text[n_text++] = *next_char;
    }
    text[n_text] = 0;
    lex->p = next_char;
    value constant;
    if (real) {
        double x;
        if (!str_to_f64(text, &x)) return fail_at(lex, begin, "a number cannot be read");
        constant = value_float(x);
    } else {
        char *end;
        const int base = !prefixed               ? 10
                         : strchr("xX", text[1]) ? 16
                         : strchr("oO", text[1]) ? 8
                                                 : 2;
        const char *digits = prefixed ? text + 2 : text;
        if (base == 10 && *text == '0' && text[strspn(text, "0")])
            return fail_at(lex, begin, "a number that begins with 0");
        const unsigned long long i = strtoull(digits, &end, base);
        if (*end || end == digits || i > INT64_MAX || n_text > 20 + 46 * (size_t)prefixed)
            return fail_at(lex, begin, "a number cannot be read, or is beyond 64 bits");
        constant = value_int((int64_t)i);
    }
    return add(lex, TOKEN_NUMBER, begin, (size_t)(next_char - begin), constant);
}

static drv_status lex_operator(lexer *l) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (begins(l, l->p, two[i])) {
            l->p += 2;
            return add(l, TOKEN_OPERATOR, l->p - 2, 2, value_none());
        }
    if (!strchr("+-/*%~[](){}><=.:|,", *l->p) || !*l->p) {
        char what[64];
        snprintf(what, sizeof what, "unexpected character \"%c\"",
                *l->p >= ' ' && *l->p < 127 ? *l->p : '?');
        return fail_at(l, l->p, what);
    }
    l->p++;
    return add(l, TOKEN_OPERATOR, l->p - 1, 1, value_none());
}

// Splits a tag into tokens, up to its end; p is after "{{" or "{%" and its sign.
static drv_status lex_tag(lexer *lex, bool print) {
    enum { MAX_OPEN = 256 };
    const char *close = print ? "}}" : "%}", *tag = lex->p;
    char open[MAX_OPEN];
    int n_open = 0;
    while (lex->p < lex->end) {
        const char letter = *lex->p;
        if (is_space(letter)) {
            lex->p++;
            continue;
        }
        const bool sign =
                (letter == '-' || (letter == '+' && !print)) && begins(lex, lex->p + 1, close);
        if (n_open == 0 && (sign || begins(lex, lex->p, close))) {
            DRV_TRY(add(lex, print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, lex->p, 2, value_none()));
            lex->p += sign ? 3 : 2;
            after_tag(lex, sign ? letter : 0, print);
            return DRV_OK;
        }
        if (letter == '\'' || letter == '"') {
            DRV_TRY(lex_string(lex));
        } else if (is_digit(letter)) {
            DRV_TRY(lex_number(lex));
        } else if (is_letter(letter)) {
            const char *begin = lex->p;
            while (lex->p < lex->end && (is_letter(*lex->p) || is_digit(*lex->p)))
                lex->p++;
            DRV_TRY(add(lex, TOKEN_NAME, begin, (size_t)(lex->p - begin), value_none()));
        } else {
            if (strchr("([{", letter)) {
                if (n_open == MAX_OPEN)
                    return fail_at(lex, lex->p, "brackets are nested too deeply");
                open[n_open++] = letter == '(' ? ')' : letter == '[' ? ']' : '}';
            } else if (strchr(")]}", letter)) {
                if (n_open == 0 || open[--n_open] != letter)
                    return fail_at(lex, lex->p, "a bracket closes that was not opened");
            }
            DRV_TRY(lex_operator(lex));
        }
    }
    return fail_at(lex, tag, print ? "{{ without }}" : "{% without %}");
}

// --- between tags

static const char *skip_spaces(const lexer *l, const char *p) {
    while (p < l->end && is_space(*p))
        p++;
    return p;
}

// Returns the end of "{% WORD %}", with signs or without, at p; NULL: something else is there.
// *sign: the one before "%}".
static const char *lone_word(const lexer *l, const char *p, const char *word, char *sign) {
    if (!begins(l, p, "{%")) return NULL;
    p += 2;
    if (p < l->end && (*p == '-' || *p == '+')) p++;
    p = skip_spaces(l, p);
    if (!begins(l, p, word)) return NULL;
    p = skip_spaces(l, p + strlen(word));
    *sign = p < l->end && (*p == '-' || *p == '+') ? *p++ : 0;
    return begins(l, p, "%}") ? p + 2 : NULL;
}

static drv_status lex_raw(lexer *l, const char *tag, const char *after, char sign) {
    l->p = after;
    if (sign == '-') after_tag(l, sign, false);
    l->line_starting = false;
    for (const char *p = l->p; p < l->end; p++) {
        char end_sign;
        const char *end = lone_word(l, p, "endraw", &end_sign);
        if (!end) continue;
        DRV_TRY(add_text(l, l->p, p, false));
        l->p = end;
        after_tag(l, end_sign, false);
        return DRV_OK;
    }
    return fail_at(l, tag, "raw without endraw");
}

static drv_status lex_comment(lexer *l, const char *tag) {
    for (const char *p = tag + 2; p + 1 < l->end; p++) {
        if (!begins(l, p, "#}")) continue;
        l->p = p + 2;
        after_tag(l, p > tag + 2 && (p[-1] == '-' || p[-1] == '+') ? p[-1] : 0, false);
        return DRV_OK;
    }
    return fail_at(l, tag, "{# without #}");
}

static drv_status lex_all(lexer *lex) {
    while (lex->p < lex->end) {
        const char *tag = lex->p;
        while (tag < lex->end &&
                !(begins(lex, tag, "{{") || begins(lex, tag, "{%") || begins(lex, tag, "{#")))
            tag++;
        const bool print = tag < lex->end && tag[1] == '{';
        DRV_TRY(add_text(lex, lex->p, tag, print));
        if (tag == lex->end) break;
        char sign;
        const char *raw = lone_word(lex, tag, "raw", &sign);
        if (raw && sign != '+') {
            DRV_TRY(lex_raw(lex, tag, raw, sign));
        } else if (tag[1] == '#') {
            DRV_TRY(lex_comment(lex, tag));
        } else {
            DRV_TRY(add(lex, print ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, tag, 2, value_none()));
            lex->p = tag + 2;
            if (lex->p < lex->end && (*lex->p == '-' || (*lex->p == '+' && !print))) lex->p++;
            DRV_TRY(lex_tag(lex, print));
        }
    }
    return add(lex, TOKEN_END, lex->end, 0, value_none());
}

// Copies the source with \n as the end of each line, and without the last one.
static drv_status normalise(value_memory *memory, const char *name, const char *source,
        size_t n_source, value *out) {
    void *copy;
    DRV_TRY(value_alloc(memory, n_source, &copy));
    char *p = copy;
    size_t n_out = 0;
    for (size_t i = 0; i < n_source;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)source + i,
                (utf8proc_ssize_t)(n_source - i), &c);
        if (k < 1) return drv_fail(DRV_E_DATA, "%s: byte %zu is not UTF-8", name, i);
        if (c == '\r') {
            p[n_out++] = '\n';
            i += i + 1 < n_source && source[i + 1] == '\n' ? 2 : 1;
            continue;
        }
        memcpy(p + n_out, source + i, (size_t)k);
        n_out += (size_t)k;
        i += (size_t)k;
    }
    if (n_out && p[n_out - 1] == '\n') n_out--;
    *out = value_slice(p, n_out);
    return DRV_OK;
}

drv_status jinja_lex(value_memory *m, const char *name, const char *source, size_t n,
        token_list *out) {
    value text = value_none();
    DRV_TRY(normalise(m, name, source, n, &text));
    lexer l = {.m = m,
            .name = name,
            .begin = text.s.p,
            .p = text.s.p,
            .end = text.s.p + text.s.n,
            .counted = text.s.p,
            .position = {1, 1},
            .line_starting = true};
    DRV_TRY(lex_all(&l));
    *out = (token_list){l.t, l.n};
    return DRV_OK;
}
