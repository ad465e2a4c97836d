// YAML that configurations never need and that readers of YAML understand in different ways is
// refused by its line, before it is read: libyaml's reading of it differs from the YAML test suite
// (https://github.com/yaml/yaml-test-suite), whose cases are named below. This walks over libyaml's
// tokens and the text between them.
#include "config/config_internal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"

typedef struct strict_walk {
    const char *file; // NULL: a single value, ...
    const value *of;  // ... whose path and place these are
    const char *p;    // in the text, ...
    size_t index;     // ... the character there: libyaml counts characters
    const char *end;
    int flow;        // brackets and braces that are open
    int n_blocks;    // sections and lists by indentation that are open
    size_t *columns; // of their first tokens
    int cap;
    bool bare;        // the single value is a text without quotes
    yaml_mark_t last; // end of the last token
} strict_walk;

static drv_status refuse(const strict_walk *w, const yaml_mark_t *mark, const char *what) {
    if (!w->file) return drv_fail(DRV_E_USAGE, "%s %s: %s", w->of->where, w->of->path, what);
    return drv_fail(DRV_E_USAGE, "%s:%zu: %s", w->file, mark->line + 1, what);
}

// The byte at a mark, which never goes back; 0: the end.
static char byte_at(strict_walk *w, const yaml_mark_t *mark) {
    for (; w->index < mark->index && w->p < w->end; w->index++)
        for (w->p++; w->p < w->end && (*w->p & 0xC0) == 0x80;)
            w->p++;
    return w->p < w->end ? *w->p : 0;
}

// YAML would make a space of it or drop it; in a file the reader sees the lines.
static const char line_break[] =
        "a line break in a text, expected one line; double quotes and \\n serve";

static drv_status check_scalar(strict_walk *w, const yaml_token_t *t) {
    const yaml_scalar_style_t style = t->data.scalar.style;
    if (style == YAML_LITERAL_SCALAR_STYLE ||
            style == YAML_FOLDED_SCALAR_STYLE) // L24T/01, S98Z, X4QW
        return refuse(w, &t->start_mark,
                "a block of text (| or >), expected the value in one line; quotes and \\n serve");
    if (style == YAML_PLAIN_SCALAR_STYLE) {
        w->bare = !w->file && w->flow == 0 && w->n_blocks == 0;
        if (!w->file && t->start_mark.line != t->end_mark.line)
            return refuse(w, &t->start_mark, line_break);
        if (w->bare && t->start_mark.line > 0) return refuse(w, &t->start_mark, line_break);
        return DRV_OK;
    }
    if (t->start_mark.line != t->end_mark.line) // DK95/01, QB6E
        return refuse(w, &t->start_mark,
                "a text in quotes goes on in the next line, expected one line");
    if (byte_at(w, &t->end_mark) == '#') // SU5Z
        return refuse(w, &t->end_mark,
                "a '#' right behind a quote; a comment needs a space before it");
    return DRV_OK;
}

// An anchor or alias ends where a space, a line or a bracket does. Y2GN: `&an:chor`.
static drv_status check_name(strict_walk *w, const yaml_token_t *t) {
    const char next = byte_at(w, &t->end_mark);
    if (next == 0 || strchr(" \t\r\n,]}", next)) return DRV_OK;
    return refuse(w, &t->start_mark,
            "the name of an anchor (& or *) has other signs than letters, digits, _ and -");
}

static drv_status check_kind(strict_walk *w, const yaml_token_t *t) {
    switch (t->type) {
    case YAML_VERSION_DIRECTIVE_TOKEN: // MUS6/00
    case YAML_TAG_DIRECTIVE_TOKEN:
        return refuse(w, &t->start_mark, "a directive (%), expected keys and values");
    case YAML_TAG_TOKEN: // libyaml's reader passes it over: `!!str 5` would be a number
        return refuse(w, &t->start_mark, "a tag (!), expected a value; a text in quotes is a text");
    case YAML_KEY_TOKEN: // `{?foo: bar}`
        if (t->end_mark.index == t->start_mark.index) return DRV_OK;
        return refuse(w, &t->start_mark, "a '?' before a key, expected key: value");
    case YAML_SCALAR_TOKEN:
        return check_scalar(w, t);
    case YAML_ANCHOR_TOKEN:
    case YAML_ALIAS_TOKEN:
        return check_name(w, t);
    default:
        return DRV_OK;
    }
}

static void count_open(strict_walk *w, const yaml_token_t *t) {
    const yaml_token_type_t type = t->type;
    if (type == YAML_FLOW_SEQUENCE_START_TOKEN || type == YAML_FLOW_MAPPING_START_TOKEN) w->flow++;
    if (type == YAML_FLOW_SEQUENCE_END_TOKEN || type == YAML_FLOW_MAPPING_END_TOKEN) w->flow--;
    if (type == YAML_BLOCK_SEQUENCE_START_TOKEN || type == YAML_BLOCK_MAPPING_START_TOKEN) {
        MEM_GROW(w->columns, w->n_blocks, w->cap);
        w->columns[w->n_blocks++] = t->start_mark.column;
    }
    if (type == YAML_BLOCK_END_TOKEN && w->n_blocks > 0) w->n_blocks--;
}

// libyaml's time is quadratic in the depth, and no key is deeper than a few levels.
static drv_status check_depth(const strict_walk *w, const yaml_token_t *t) {
    enum { MOST = 64 };
    if (w->flow + w->n_blocks <= MOST) return DRV_OK;
    char what[64];
    snprintf(what, sizeof what, "nested deeper than %d levels, expected keys and values", MOST);
    return refuse(w, &t->start_mark, what);
}

// Refuses a comment or a line break behind a single value, of which it would silently be cut off.
static drv_status check_end(strict_walk *w, const yaml_token_t *t) {
    if (w->file || t->type != YAML_STREAM_END_TOKEN) return DRV_OK;
    byte_at(w, &w->last);
    const size_t n = (size_t)(w->end - w->p);
    if (w->bare && (memchr(w->p, '\n', n) || memchr(w->p, '\r', n)))
        return refuse(w, &t->start_mark, line_break);
    if (!memchr(w->p, '#', n)) return DRV_OK;
    return refuse(w, &t->start_mark, "a comment (#), expected a value; a text with # needs quotes");
}

static drv_status check_token(strict_walk *w, const yaml_token_t *t) {
    const bool ends = t->type == YAML_FLOW_SEQUENCE_END_TOKEN ||
                      t->type == YAML_FLOW_MAPPING_END_TOKEN || t->type == YAML_STREAM_END_TOKEN;
    DRV_TRY(check_kind(w, t));
    DRV_TRY(check_end(w, t));
    // 9C9N: an item that is not indented reads as a key of its own. A closing bracket does not.
    if (w->flow && !ends && w->n_blocks && t->start_mark.line > w->last.line &&
            t->start_mark.column <= w->columns[w->n_blocks - 1])
        return refuse(w, &t->start_mark,
                "inside brackets a line is to be indented more than the key");
    count_open(w, t);
    DRV_TRY(check_depth(w, t));
    w->last = t->end_mark;
    return DRV_OK;
}

static bool is_utf16(const char *text, size_t n) {
    return n >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0);
}

drv_status yaml_check(const char *file, const value *of, const char *text, size_t n) {
    strict_walk walk = {.file = file, .of = of, .p = text, .end = text + n};
    yaml_parser_t parser;
    drv_status status = DRV_OK;
    if (is_utf16(text, n))
        return refuse(&walk, &(yaml_mark_t){0}, "the text is UTF-16, expected UTF-8");
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) walk.p += 3; // not counted
    DRV_MEMORY(yaml_parser_initialize(&parser), "to read or write YAML");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    for (bool more = true; more && status == DRV_OK;) {
        yaml_token_t token;
        if (!yaml_parser_scan(&parser, &token)) break;
        more = token.type != YAML_STREAM_END_TOKEN && token.type != YAML_NO_TOKEN;
        status = check_token(&walk, &token);
        yaml_token_delete(&token);
    }
    yaml_parser_delete(&parser);
    free(walk.columns);
    return status;
}
