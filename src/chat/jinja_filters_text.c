// Filters of text: case, spaces, replacing, formats, JSON.
#include <string.h>

#include "chat/jinja_filters_internal.h"

drv_status filter_text(jinja_context *c, const value *v, value *out) {
    if (v->kind == VALUE_STRING) {
        *out = *v;
        return DRV_OK;
    }
    str text = {0};
    DRV_TRY(jinja_printable(v));
    value_print(v, &text);
    return jinja_take(c, &text, out);
}

// Returns whether a word begins after this character for the filter title; str.title has other
// rules.
static bool before_word(const value *text, size_t at, size_t *length) {
    const int32_t c = text_char_at(text->s.p + at, text->s.n - at, length);
    return text_is_space(c) || (c < 0x80 && strchr("-([{<", c));
}

static drv_status filter_title(jinja_context *c, const value *self,
        const call_args *args DRV_UNUSED, value *out) {
    value text;
    str titled = {0};
    DRV_TRY(filter_text(c, self, &text));
    DRV_TRY(jinja_charge(c, (int64_t)text.s.n / 16));
    for (size_t from = 0, length; from < text.s.n;) {
        size_t to = from;
        while (to < text.s.n && !before_word(&text, to, &length))
            to += length;
        if (to > from) { // the first character alone, the rest as if nothing stood before it
            text_char_at(text.s.p + from, to - from, &length);
            const value first = value_slice(text.s.p + from, length),
                        rest = value_slice(text.s.p + from + length, to - from - length);
            text_case(&first, CASE_UPPER, &titled);
            text_case(&rest, CASE_LOWER, &titled);
        }
        for (from = to; from < text.s.n && before_word(&text, from, &length); from += length)
            str_add(&titled, text.s.p + from, length);
    }
    return jinja_take(c, &titled, out);
}

static drv_status filter_replace(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value text, from, to;
    int64_t most = -1;
    DRV_TRY(call_whole(call_arg(args, 2, "count"), "replace", &most));
    DRV_TRY(filter_text(c, v, &text));
    DRV_TRY(filter_text(c, &args->v[0], &from));
    DRV_TRY(filter_text(c, &args->v[1], &to));
    return text_replace(c, &text, &from, &to, most, out);
}

static drv_status filter_indent(jinja_context *c, const value *self, const call_args *args,
        value *out) {
    str done = {0};
    const value *width = call_arg(args, 0, "width"), *first = call_arg(args, 1, "first"),
                *blank = call_arg(args, 2, "blank");
    const bool given = width && width->kind == VALUE_STRING; // the text that indents
    int64_t spaces = given ? 0 : 4;
    if (!given) DRV_TRY(call_whole(width, "indent", &spaces));
    if (spaces > 1000) return drv_fail(DRV_E_DATA, "indent by %lld", (long long)spaces);
    if (self->kind != VALUE_STRING)
        return drv_fail(DRV_E_DATA, "indent expects a string, found %s", value_type_name(self));
    const char *p = self->s.p, *end = p + self->s.n;
    for (bool top = true;; top = false) {
        const char *stop = p;
        size_t length = 0;
        while (stop < end && !text_ends_line(stop, end, &length))
            stop += length;
        const bool indented =
                top ? first && value_true(first) : stop > p || (blank && value_true(blank));
        if (indented && given) str_add(&done, width->s.p, width->s.n);
        for (int64_t i = 0; indented && i < spaces; i++)
            str_puts(&done, " ");
        str_add(&done, p, (size_t)(stop - p));
        if (stop == end || done.n > JINJA_MAX_OUTPUT) break; // the latter is refused by jinja_take
        str_puts(&done, "\n");
        p = stop + length;
    }
    return jinja_take(c, &done, out);
}

drv_status jinja_escape(jinja_context *c, const value *text, value *out) {
    static const char plain[] = "&<>'\"", *const escaped[] = {"&amp;", "&lt;", "&gt;", "&#39;",
                                                  "&#34;"};
    str done = {0};
    *out = *text;
    if (text->s.safe) return DRV_OK;
    for (size_t i = 0; i < text->s.n; i++) {
        const char *found = text->s.p[i] ? strchr(plain, text->s.p[i]) : NULL;
        if (found)
            str_puts(&done, escaped[found - plain]);
        else
            str_add(&done, text->s.p + i, 1);
    }
    DRV_TRY(jinja_take(c, &done, out));
    out->s.safe = true;
    return DRV_OK;
}

static drv_status filter_escape(jinja_context *c, const value *v, const call_args *args DRV_UNUSED,
        value *out) {
    value text;
    DRV_TRY(filter_text(c, v, &text));
    return jinja_escape(c, &text, out);
}

static drv_status filter_string(jinja_context *c, const value *v, const call_args *args DRV_UNUSED,
        value *out) {
    return filter_text(c, v, out);
}

static drv_status filter_safe(jinja_context *c, const value *v, const call_args *args, value *out) {
    DRV_TRY(filter_string(c, v, args, out));
    out->s.safe = true;
    return DRV_OK;
}

static drv_status filter_tojson(jinja_context *c, const value *self, const call_args *args,
        value *out) {
    tojson_opts opts = {.indent = -1,
            .indent_text = value_none(),
            .item_separator = value_text(", "),
            .key_separator = value_text(": ")};
    // transformers' order: ensure_ascii, indent, separators, sort_keys
    const value *ascii = call_arg(args, 0, "ensure_ascii"), *indent = call_arg(args, 1, "indent");
    const value *separators = call_arg(args, 2, "separators"),
                *sort = call_arg(args, 3, "sort_keys");
    opts.ascii = ascii && value_true(ascii);
    if (indent && indent->kind == VALUE_STRING)
        opts.indent_text = *indent, opts.indent = 0;
    else
        DRV_TRY(call_whole(indent, "tojson", &opts.indent));
    if (opts.indent > 100 || (opts.indent_text.kind == VALUE_STRING && opts.indent_text.s.n > 100))
        return drv_fail(DRV_E_DATA, "tojson: an indent of more than 100");
    if (opts.indent >= 0) opts.item_separator = value_text(",");
    if (separators && separators->kind != VALUE_NONE) {
        if (separators->kind != VALUE_LIST || separators->list->n != 2 ||
                separators->list->v[0].kind != VALUE_STRING ||
                separators->list->v[1].kind != VALUE_STRING)
            return drv_fail(DRV_E_DATA, "tojson: separators are two strings");
        opts.item_separator = separators->list->v[0];
        opts.key_separator = separators->list->v[1];
    }
    opts.sort_keys = sort && value_true(sort);
    str text = {0};
    drv_status status = value_tojson(self, &opts, 0, &text);
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

const filter_row filters_of_text[] = {
        {"e", filter_escape, 0, 0, ""},
        {"escape", filter_escape, 0, 0, ""},
        {"indent", filter_indent, 0, 3, "width first blank"},
        {"replace", filter_replace, 2, 3, "count old new"},
        {"safe", filter_safe, 0, 0, ""},
        {"string", filter_string, 0, 0, ""},
        {"title", filter_title, 0, 0, ""},
        {"tojson", filter_tojson, 0, 4, "ensure_ascii indent separators sort_keys"},
        {0},
};
