// Filters of text: letters, spaces, replacing, formats, JSON.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_filters_internal.h"

// What a filter of text sees: v printed.
static drv_status as_text(jinja_context *c, const value *v, value *out) {
    if (v->kind == VALUE_STRING) {
        *out = *v;
        return DRV_OK;
    }
    str text = {0};
    DRV_TRY(jinja_printable(v));
    value_print(v, &text);
    return jinja_take(c, &text, out);
}

static drv_status filter_trim(jinja_context *c, const value *v, const call_args *args, value *out) {
    value text;
    DRV_TRY(call_check(args, "trim", 0, 1, "chars"));
    DRV_TRY(as_text(c, v, &text));
    const value *chars = call_arg(args, 0, "chars");
    if (chars && chars->kind != VALUE_STRING) chars = NULL;
    *out = text_strip(&text, chars, true, true);
    out->s.safe = text.s.safe;
    return DRV_OK;
}

static drv_status change_case(jinja_context *c, const value *v, const call_args *args,
        text_case_kind kind, value *out) {
    value text;
    str changed = {0};
    DRV_TRY(filter_no_args(args, "a filter of letters"));
    DRV_TRY(as_text(c, v, &text));
    DRV_TRY(jinja_charge(c, (int64_t)text.s.n / 16));
    text_case(&text, kind, &changed);
    DRV_TRY(jinja_take(c, &changed, out));
    out->s.safe = text.s.safe;
    return DRV_OK;
}
static drv_status filter_upper(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    return change_case(c, v, args, CASE_UPPER, out);
}
static drv_status filter_lower(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    return change_case(c, v, args, CASE_LOWER, out);
}
static drv_status filter_capitalize(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    return change_case(c, v, args, CASE_CAPITAL, out);
}

// What words of the filter title begin after, unlike those of str.title.
static bool before_word(const value *text, size_t at, size_t *length) {
    const int32_t c = text_char_at(text->s.p + at, text->s.n - at, length);
    return text_is_space(c) || (c < 0x80 && strchr("-([{<", c));
}

static drv_status filter_title(jinja_context *context, const value *self, const call_args *args,
        value *out) {
    value text;
    str titled = {0};
    DRV_TRY(filter_no_args(args, "title"));
    DRV_TRY(as_text(context, self, &text));
    DRV_TRY(jinja_charge(context, (int64_t)text.s.n / 16));
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
    return jinja_take(context, &titled, out);
}

static drv_status filter_replace(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value text, from, to;
    int64_t most = -1;
    DRV_TRY(call_check(args, "replace", 2, 3, "count old new"));
    DRV_TRY(filter_whole(call_arg(args, 2, "count"), "replace", &most));
    DRV_TRY(as_text(c, v, &text));
    DRV_TRY(as_text(c, &args->v[0], &from));
    DRV_TRY(as_text(c, &args->v[1], &to));
    return text_replace(c, &text, &from, &to, most, out);
}

static drv_status filter_indent(jinja_context *context, const value *self, const call_args *args,
        value *out) {
    value text;
    str done = {0};
    DRV_TRY(call_check(args, "indent", 0, 3, "width first blank"));
    const value *width = call_arg(args, 0, "width"), *first = call_arg(args, 1, "first"),
                *blank = call_arg(args, 2, "blank");
    int64_t n = 4;
    if (width && width->kind != VALUE_STRING) DRV_TRY(filter_whole(width, "indent", &n));
    if (n > 1000) return drv_fail(DRV_E_DATA, "indent by %lld", (long long)n);
    DRV_TRY(as_text(context, self, &text));
    const char *p = text.s.p, *end = p + text.s.n;
    for (bool top = true;; top = false) {
        const char *line = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL,
                   *stop = line ? line : end;
        const bool indented =
                top ? first && value_true(first) : stop > p || (blank && value_true(blank));
        if (indented && width && width->kind == VALUE_STRING)
            str_add(&done, width->s.p, width->s.n);
        for (int64_t i = 0; indented && i < n && !(width && width->kind == VALUE_STRING); i++)
            str_puts(&done, " ");
        str_add(&done, p, (size_t)(stop - p));
        if (!line || done.n > JINJA_MAX_OUTPUT) break; // the latter is refused by jinja_take
        str_puts(&done, "\n");
        p = line + 1;
    }
    return jinja_take(context, &done, out);
}

drv_status jinja_escape(jinja_context *c, const value *text, value *out) {
    static const char plain[] = "&<>'\"", *const escaped[] = {"&amp;", "&lt;", "&gt;", "&#39;",
                                                  "&#34;"};
    str done = {0};
    *out = *text;
    if (text->s.safe) return DRV_OK;
    for (size_t i = 0; i < text->s.n; i++) {
        const char *at = text->s.p[i] ? strchr(plain, text->s.p[i]) : NULL;
        if (at)
            str_puts(&done, escaped[at - plain]);
        else
            str_add(&done, text->s.p + i, 1);
    }
    DRV_TRY(jinja_take(c, &done, out));
    out->s.safe = true;
    return DRV_OK;
}

static drv_status filter_escape(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value text;
    DRV_TRY(filter_no_args(args, "escape"));
    DRV_TRY(as_text(c, v, &text));
    return jinja_escape(c, &text, out);
}

static drv_status filter_force_escape(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value text;
    DRV_TRY(filter_no_args(args, "forceescape"));
    DRV_TRY(as_text(c, v, &text));
    text.s.safe = false;
    return jinja_escape(c, &text, out);
}

// In the middle of `width` columns: the method of that name, whose width need not be given here.
static drv_status filter_center(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    const value name = value_text("center"), columns = value_int(80);
    value text, method;
    bool found;
    DRV_TRY(call_check(args, "center", 0, 1, "width"));
    DRV_TRY(as_text(c, v, &text));
    DRV_TRY(jinja_method(c, &text, &name, &found, &method));
    return jinja_call(c, &method, args->n ? args : &(call_args){&columns, 1, NULL, 0}, out);
}

// RFC 3986, section 2: all but letters, digits and "-._~" as %XX; a "/" stays too, unless it is in
// a query, where a space becomes "+".
static drv_status quote_url(jinja_context *c, const value *v, bool query, str *out) {
    value text;
    DRV_TRY(as_text(c, v, &text));
    for (size_t i = 0; i < text.s.n; i++) {
        const unsigned char byte = (unsigned char)text.s.p[i];
        if (byte == ' ' && query)
            str_puts(out, "+");
        else if ((byte < 0x80 && isalnum(byte)) || (byte && strchr("-._~", byte)) ||
                 (byte == '/' && !query))
            str_add(out, &byte, 1);
        else
            str_printf(out, "%%%02X", byte);
    }
    return DRV_OK;
}

static drv_status quote_query(jinja_context *c, const value *v, str *out) {
    value_list items = {0};
    value pairs = *v;
    const value name = value_text("items");
    if (v->kind == VALUE_DICT) DRV_TRY(jinja_filter(c, &name, v, &(call_args){0}, &pairs));
    DRV_TRY(jinja_items(c, &pairs, &items));
    for (int64_t i = 0; i < items.n; i++) {
        const value *pair = &items.v[i];
        if (pair->kind != VALUE_LIST || pair->list->n != 2)
            return drv_fail(DRV_E_DATA, "urlencode expects pairs, found %s", value_type_name(pair));
        if (i) str_puts(out, "&");
        DRV_TRY(quote_url(c, &pair->list->v[0], true, out));
        str_puts(out, "=");
        DRV_TRY(quote_url(c, &pair->list->v[1], true, out));
    }
    return DRV_OK;
}

static drv_status filter_urlencode(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    const bool many = v->kind == VALUE_DICT || v->kind == VALUE_LIST || v->kind == VALUE_GENERATOR;
    str text = {0};
    DRV_TRY(filter_no_args(args, "urlencode"));
    drv_status status = many ? quote_query(c, v, &text) : quote_url(c, v, false, &text);
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

static drv_status filter_string(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    DRV_TRY(filter_no_args(args, "string"));
    return as_text(c, v, out);
}

static drv_status filter_safe(jinja_context *c, const value *v, const call_args *args, value *out) {
    DRV_TRY(filter_string(c, v, args, out));
    out->s.safe = true;
    return DRV_OK;
}

// "%s and %d"|format(a, b), or of names: "%(a)s"|format(a=1)
static drv_status filter_format(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value named;
    if (v->kind != VALUE_STRING || (args->n_keywords && args->n_keywords < args->n))
        return drv_fail(DRV_E_DATA, "format expects a string, and values in order or by name");
    if (!args->n_keywords) return jinja_format_percent(c, v, args, out);
    DRV_TRY(value_new_dict(&c->m, &named));
    for (int k = 0; k < args->n; k++)
        DRV_TRY(value_dict_set(&c->m, named.dict, args->keywords[k], args->v[k]));
    return jinja_format_percent(c, v, &(call_args){&named, 1, NULL, 0}, out);
}

static drv_status filter_tojson(jinja_context *context, const value *self, const call_args *args,
        value *out) {
    tojson_opts opts = {.indent = -1,
            .indent_text = value_none(),
            .item_separator = value_text(", "),
            .key_separator = value_text(": ")};
    DRV_TRY(call_check(args, "tojson", 0, 4, "ensure_ascii indent separators sort_keys"));
    // transformers' order: ensure_ascii, indent, separators, sort_keys
    const value *ascii = call_arg(args, 0, "ensure_ascii"), *indent = call_arg(args, 1, "indent");
    const value *separators = call_arg(args, 2, "separators"),
                *sort = call_arg(args, 3, "sort_keys");
    opts.ascii = ascii && value_true(ascii);
    if (indent && indent->kind == VALUE_STRING)
        opts.indent_text = *indent, opts.indent = 0;
    else
        DRV_TRY(filter_whole(indent, "tojson", &opts.indent));
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
    if (status == DRV_OK) return jinja_take(context, &text, out);
    str_free(&text);
    return status;
}

// Bytes of the first n characters.
static size_t bytes_of(const value *text, int64_t n) {
    size_t bytes = 0, length;
    for (; n > 0 && bytes < text->s.n; n--, bytes += length)
        text_char_at(text->s.p + bytes, text->s.n - bytes, &length);
    return bytes;
}

// Up to `length` characters with `end` in place of the rest, cut at a space; texts that are up to
// `leeway` longer stay whole.
static drv_status filter_truncate(jinja_context *context, const value *self, const call_args *args,
        value *out) {
    int64_t length = 255, leeway = 5;
    DRV_TRY(call_check(args, "truncate", 0, 4, "length killwords end leeway"));
    DRV_TRY(filter_whole(call_arg(args, 0, "length"), "truncate", &length));
    DRV_TRY(filter_whole(call_arg(args, 3, "leeway"), "truncate", &leeway));
    const value dots = value_text("..."), *words = call_arg(args, 1, "killwords"),
                *end = call_arg(args, 2, "end");
    if (!end) end = &dots;
    if (self->kind != VALUE_STRING || end->kind != VALUE_STRING || self->s.safe || end->s.safe)
        return drv_fail(DRV_E_DATA, "truncate expects strings that are not safe, found %s",
                value_type_name(self->kind == VALUE_STRING ? end : self));
    const int64_t keep = length - text_length(end->s.p, end->s.n);
    if (keep < 0 || leeway < 0 || length > INT32_MAX || leeway > INT32_MAX)
        return drv_fail(DRV_E_DATA, "truncate to %lld, with a leeway of %lld", (long long)length,
                (long long)leeway);
    *out = *self;
    if (text_length(self->s.p, self->s.n) <= length + leeway) return DRV_OK;
    const size_t most = bytes_of(self, keep);
    const char *space = words && value_true(words) ? NULL : memrchr(self->s.p, ' ', most);
    str text = {0};
    str_add(&text, self->s.p, space ? (size_t)(space - self->s.p) : most);
    str_add(&text, end->s.p, end->s.n);
    return jinja_take(context, &text, out);
}

// Words are runs of letters, digits and underscores.
static drv_status filter_wordcount(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value text;
    int64_t n = 0;
    bool inside = false;
    DRV_TRY(filter_no_args(args, "wordcount"));
    DRV_TRY(as_text(c, v, &text));
    for (size_t i = 0, k; i < text.s.n; i += k) {
        const bool word = text_is_word(text.s.p + i, text.s.n - i, &k);
        n += word && !inside;
        inside = word;
    }
    *out = value_int(n);
    return DRV_OK;
}

const filter_row filters_of_text[] = {
        {"capitalize", filter_capitalize},
        {"e", filter_escape},
        {"escape", filter_escape},
        {"center", filter_center},
        {"forceescape", filter_force_escape},
        {"format", filter_format},
        {"indent", filter_indent},
        {"lower", filter_lower},
        {"replace", filter_replace},
        {"safe", filter_safe},
        {"string", filter_string},
        {"title", filter_title},
        {"tojson", filter_tojson},
        {"trim", filter_trim},
        {"truncate", filter_truncate},
        {"upper", filter_upper},
        {"urlencode", filter_urlencode},
        {"wordcount", filter_wordcount},
        {0},
};
