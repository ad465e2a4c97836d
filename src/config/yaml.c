// Converts YAML to values (value.h) with libyaml (docs/adr/0001-libyaml.md explains why not
// libcyaml), with messages that name the line and a remedy; and values back to YAML.
#include <ctype.h>
#include <string.h>
#include <yaml.h>

#include "config/config_internal.h"

enum { MAX_DEPTH = 8, MAX_VALUES = 10000 };

typedef struct yaml_walk {
    arena *a;
    const char *file;  // NULL: a single value, ...
    const char *given; // ... which this place gives: "--set"
    yaml_document_t *doc;
    int n_values; // so far: aliases could multiply without end
} yaml_walk;

static const char *where(const yaml_walk *w, const yaml_node_t *node) {
    if (!w->file) return w->given;
    return arena_printf(w->a, "%s:%zu", w->file, node->start_mark.line + 1);
}

static drv_status read_node(yaml_walk *w, int id, int depth, value *v);

static drv_status read_scalar(yaml_walk *w, const yaml_node_t *node, value *v) {
    const char *text = (const char *)node->data.scalar.value;
    const size_t n = node->data.scalar.length;
    if (memchr(text, 0, n))
        return drv_fail(DRV_E_USAGE, "%s: key \"%s\" holds a NUL byte, expected text", v->where,
                v->path);
    v->kind = VALUE_TEXT;
    v->text = arena_strndup(w->a, text, n);
    if (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
            STR_ONE_OF(text, "", "~", "null", "Null", "NULL"))
        v->kind = VALUE_NULL;
    return DRV_OK;
}

static drv_status read_list(yaml_walk *w, const yaml_node_t *node, int depth, value *v) {
    const yaml_node_item_t *first = node->data.sequence.items.start;
    v->kind = VALUE_LIST;
    v->n = (int)(node->data.sequence.items.top - first);
    value *items = ARENA_ARRAY(w->a, value, v->n);
    for (int i = 0; i < v->n; i++) {
        items[i].path = arena_printf(w->a, "%s[%d]", v->path, i);
        DRV_TRY(read_node(w, first[i], depth + 1, &items[i]));
    }
    v->items = items;
    return DRV_OK;
}

static drv_status read_map(yaml_walk *walk, const yaml_node_t *node, int depth, value *out) {
    const yaml_node_pair_t *first = node->data.mapping.pairs.start;
    out->kind = VALUE_MAP;
    out->n = (int)(node->data.mapping.pairs.top - first);
    value *items = ARENA_ARRAY(walk->a, value, out->n);
    for (int i = 0; i < out->n; i++) {
        const yaml_node_t *name = yaml_document_get_node(walk->doc, first[i].key);
        if (name->type != YAML_SCALAR_NODE)
            return drv_fail(DRV_E_USAGE, "%s: expected the name of a key, found a list or a map",
                    where(walk, name));
        const char *letters = (const char *)name->data.scalar.value;
        const size_t n_letters = name->data.scalar.length;
        if (n_letters == 0 || memchr(letters, 0, n_letters))
            return drv_fail(DRV_E_USAGE, "%s: expected the name of a key, found %s",
                    where(walk, name), n_letters ? "a NUL byte" : "nothing before the colon");
        if (strcmp(letters, "<<") == 0 && name->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
            return drv_fail(DRV_E_USAGE,
                    "%s: a merge key (<<), which YAML 1.2 does not have; expected the keys of that section themselves",
                    where(walk, name));
        items[i].name = arena_strdup(walk->a, letters);
        items[i].path =
                arena_printf(walk->a, "%s%s%s", out->path, *out->path ? "." : "", items[i].name);
        DRV_TRY(read_node(walk, first[i].value, depth + 1, &items[i]));
        items[i].where = where(walk, name); // the line of the key, not that of a value below it
        for (int k = 0; k < i; k++)
            if (strcmp(items[k].name, items[i].name) == 0)
                return drv_fail(DRV_E_USAGE, "%s: key \"%s\" is given twice, first at %s",
                        items[i].where, items[i].path, items[k].where);
    }
    out->items = items;
    return DRV_OK;
}

static drv_status read_node(yaml_walk *w, int id, int depth, value *v) {
    const yaml_node_t *node = yaml_document_get_node(w->doc, id);
    v->where = where(w, node);
    if (depth > MAX_DEPTH)
        return drv_fail(DRV_E_USAGE, "%s: \"%s\" is nested deeper than %d levels", v->where,
                v->path, MAX_DEPTH);
    if (++w->n_values > MAX_VALUES)
        return drv_fail(DRV_E_USAGE, "%s: more than %d values", v->where, MAX_VALUES);
    if (node->type == YAML_SCALAR_NODE) return read_scalar(w, node, v);
    if (node->type == YAML_SEQUENCE_NODE) return read_list(w, node, depth, v);
    return read_map(w, node, depth, v);
}

// --- errors of libyaml
// Returns whether a tab stands in the indentation of the line (counted from 0).
static bool has_tab(const char *text, size_t n, size_t line) {
    const char *p = text, *end = text + n;
    for (; line > 0 && p < end; line--) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        p = newline ? newline + 1 : end;
    }
    for (; p < end && (*p == ' ' || *p == '\t'); p++)
        if (*p == '\t') return true;
    return false;
}

static const char *advice(const char *problem) {
    static const struct {
        const char *problem, *advice;
    } known[] = {
            {"mapping values are not allowed in this context",
                    "; a text with \": \" needs quotes, and keys of one section the same indentation"},
            {"found character that cannot start any token",
                    "; a text that begins with a sign (@ ` %) needs quotes"},
            {"could not find expected ':'", "; expected key: value"},
            {"did not find expected key", "; keys of one section need the same indentation"},
            {"did not find expected ',' or '}'", "; a brace { is not closed"},
            {"did not find expected ',' or ']'", "; a bracket [ is not closed"},
            {"found undefined tag handle", "; a text that begins with ! needs quotes"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(problem, known[i].problem) == 0) return known[i].advice;
    return "";
}

static drv_status not_yaml(const yaml_parser_t *parser, const char *file, const value *of,
        const char *text, size_t n_bytes) {
    const char *problem = parser->problem ? parser->problem : "unknown problem";
    if (!file)
        return drv_fail(DRV_E_USAGE, "%s %s=%.80s: not YAML: %s%s", of->where, of->path, text,
                problem, advice(problem));
    if (parser->error == YAML_READER_ERROR) // it has no line
        return drv_fail(DRV_E_USAGE, "%s: byte %zu is not text in UTF-8: %s", file,
                parser->problem_offset, problem);
    const size_t line = parser->problem_mark.line, began = parser->context_mark.line;
    const size_t tab = has_tab(text, n_bytes, line) ? line : began;
    if (has_tab(text, n_bytes, tab))
        return drv_fail(DRV_E_USAGE, "%s:%zu: a tab, expected spaces for indentation", file,
                tab + 1);
    char context[160] = "";
    if (parser->context && began < line)
        snprintf(context, sizeof context, ", %s that begins in line %zu", parser->context,
                began + 1);
    return drv_fail(DRV_E_USAGE, "%s:%zu: not YAML: %s%s%s", file, line + 1, problem, context,
            advice(problem));
}

// One document; `file` NULL: a single value, whose path and place `out` has.
static drv_status read_text(arena *a, const char *file, const char *text, size_t n_bytes,
        value *out) {
    DRV_TRY(yaml_check(file, out, text, n_bytes));
    yaml_parser_t parser;
    yaml_document_t doc, next;
    DRV_MEMORY(yaml_parser_initialize(&parser), "to read or write YAML");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n_bytes);
    drv_status status = DRV_OK;
    out->kind = VALUE_NULL;
    if (!yaml_parser_load(&parser, &doc)) {
        status = not_yaml(&parser, file, out, text, n_bytes);
    } else {
        yaml_walk walk = {.a = a, .file = file, .given = out->where, .doc = &doc};
        if (yaml_document_get_root_node(&doc)) status = read_node(&walk, 1, 0, out);
        yaml_document_delete(&doc);
        if (status == DRV_OK && !yaml_parser_load(&parser, &next)) {
            status = not_yaml(&parser, file, out, text, n_bytes);
        } else if (status == DRV_OK) {
            const yaml_node_t *root = yaml_document_get_root_node(&next);
            if (root)
                status = drv_fail(DRV_E_USAGE, "%s:%zu: a second document begins, expected one",
                        file ? file : out->where, root->start_mark.line + 1);
            yaml_document_delete(&next);
        }
    }
    yaml_parser_delete(&parser);
    return status;
}

drv_status yaml_read(arena *a, const char *file, const char *text, size_t n, value *out) {
    *out = (value){.path = "", .where = file};
    if (str_ends(file, ".toml"))
        return drv_fail(DRV_E_USAGE,
                "%s: a file in TOML, expected YAML; docs/keys.md has the names of other trainers' keys here",
                file);
    DRV_TRY(read_text(a, file, text, n, out));
    if (out->kind == VALUE_NULL) out->kind = VALUE_MAP;
    if (out->kind != VALUE_MAP)
        return drv_fail(DRV_E_USAGE, "%s: expected keys and values, found %s", out->where,
                value_shown(a, out));
    return DRV_OK;
}

drv_status yaml_read_value(arena *a, const char *path, const char *where_given, const char *text,
        value *out) {
    *out = (value){.path = path, .name = path, .where = where_given};
    DRV_TRY(read_text(a, NULL, text, strlen(text), out));
    out->where = where_given;
    return DRV_OK;
}

drv_status yaml_read_set(arena *a, const char *set, value *out) {
    const char *equal = strchr(set, '=');
    if (!equal || equal == set)
        return drv_fail(DRV_E_USAGE, "--set \"%s\": expected KEY=VALUE, as optimizer.lr=1e-3", set);
    return yaml_read_value(a, arena_strndup(a, set, (size_t)(equal - set)), "--set", equal + 1,
            out);
}

// --- back to text
// One code point of valid UTF-8; p moves past it.
static uint32_t next_code_point(const char **p) {
    const unsigned char *s = (const unsigned char *)*p;
    const int n = s[0] < 0x80 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7Fu >> n);
    int i = 1;
    for (; i < n && (s[i] & 0xC0) == 0x80; i++)
        c = c << 6 | (s[i] & 0x3Fu);
    *p += i;
    return c;
}

// Returns whether a YAML reader refuses, folds or skips the character: controls, its line breaks
// beyond \n, the byte order mark.
static bool needs_escape(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || c == 0xFEFF ||
           c == 0xFFFE || c == 0xFFFF;
}

void yaml_quote(const char *text, str *out) {
    str_puts(out, "\"");
    for (const char *p = text; *p;) {
        const char *begin = p;
        const uint32_t c = next_code_point(&p);
        if (c == '"' || c == '\\')
            str_printf(out, "\\%c", (char)c);
        else if (c == '\n')
            str_puts(out, "\\n");
        else if (c == '\t')
            str_puts(out, "\\t");
        else if (needs_escape(c))
            str_printf(out, "\\u%04X", c);
        else
            str_add(out, begin, (size_t)(p - begin));
    }
    str_puts(out, "\"");
}

void yaml_put_path(const char *path, str *out) {
    const bool plain = isalpha((unsigned char)*path) || *path == '/' || *path == '.';
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    if (plain && path[strspn(path, safe)] == 0)
        str_puts(out, path);
    else
        yaml_quote(path, out);
}
