// Filters of text: letters, spaces, replacing, formats, JSON.
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

// Words begin after spaces, hyphens and opening brackets, unlike str.title.
static drv_status filter_title(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value text;
    str titled = {0};
    DRV_TRY(filter_no_args(args, "title"));
    DRV_TRY(as_text(c, v, &text));
    for (size_t i = 0; i < text.s.n;) {
        size_t n = 0;
        while (i + n < text.s.n && !strchr(" \t\n\r\f\v-([{<", text.s.p[i + n]))
            n++;
        const value word = value_slice(text.s.p + i, n);
        text_case(&word, CASE_CAPITAL, &titled);
        for (i += n; i < text.s.n && strchr(" \t\n\r\f\v-([{<", text.s.p[i]); i++)
            str_add(&titled, text.s.p + i, 1);
    }
    return jinja_take(c, &titled, out);
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

// One place of a format: its flags and width as written, and the letter after them.
typedef struct format_place {
    char flags[10];
    char kind;
} format_place;

static size_t read_place(const value *format, size_t i, format_place *out) {
    size_t n = 0;
    *out = (format_place){{0}, 0};
    for (; i < format->s.n && strchr("-+ 0#.123456789", format->s.p[i]) &&
            n + 1 < sizeof out->flags;
            i++)
        out->flags[n++] = format->s.p[i];
    if (i < format->s.n) out->kind = format->s.p[i];
    return i;
}

static drv_status put_text(jinja_context *c, const format_place *place, const value *v, str *out) {
    const bool left = place->flags[0] == '-';
    const int64_t width = strtol(place->flags + left, NULL, 10);
    str shown = {0};
    value text;
    if (place->kind == 's')
        value_print(v, &shown);
    else
        value_repr(v, &shown);
    DRV_TRY(jinja_take(c, &shown, &text));
    const int64_t pad = width - text_length(text.s.p, text.s.n);
    if (!left) str_printf(out, "%*s", pad > 0 ? (int)pad : 0, "");
    str_add(out, text.s.p, text.s.n);
    if (left) str_printf(out, "%*s", pad > 0 ? (int)pad : 0, "");
    return DRV_OK;
}

static drv_status put_number(const format_place *place, const value *v, str *out) {
    char spec[20], shown[512];
    if (!value_is_number(v) || !place->kind || !strchr("dixXofFeEgG", place->kind))
        return drv_fail(DRV_E_DATA, "format: \"%%%c\" cannot show %s",
                place->kind ? place->kind : ' ', value_type_name(v));
    const bool whole = strchr("dixXo", place->kind) != NULL;
    snprintf(spec, sizeof spec, "%%%s%s%c", place->flags, whole ? "ll" : "", place->kind);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (whole)
        snprintf(shown, sizeof shown, spec,
                v->kind == VALUE_FLOAT ? (long long)v->f
                : v->kind == VALUE_INT ? (long long)v->i
                                       : (long long)v->b);
    else
        snprintf(shown, sizeof shown, spec, value_real(v));
#pragma GCC diagnostic pop
    str_puts(out, shown);
    return DRV_OK;
}

static drv_status put_all(jinja_context *context, const value *format, const call_args *args,
        str *out) {
    int next = 0;
    for (size_t i = 0; i < format->s.n; i++) {
        format_place place;
        if (format->s.p[i] != '%') {
            str_add(out, format->s.p + i, 1);
            continue;
        }
        i = read_place(format, i + 1, &place);
        if (place.kind == '%') {
            str_puts(out, "%");
            continue;
        }
        if (next >= args->n) return drv_fail(DRV_E_DATA, "format has more places than values");
        const value *v = &args->v[next++];
        DRV_TRY(place.kind == 's' || place.kind == 'r' ? put_text(context, &place, v, out)
                                                       : put_number(&place, v, out));
    }
    // Python takes one list or dict for a mapping, and a format need not use all of a mapping.
    const value_kind kind = args->n == 1 ? args->v[0].kind : VALUE_NONE;
    const bool mapping = kind == VALUE_DICT || kind == VALUE_LIST || kind == VALUE_UNDEFINED;
    if (next < args->n && !mapping)
        return drv_fail(DRV_E_DATA, "format has more values than places");
    return DRV_OK;
}

// %s, %d, %f and their like, in order.
static drv_status filter_format(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    str text = {0};
    if (v->kind != VALUE_STRING || args->n_keywords)
        return drv_fail(DRV_E_DATA, "format expects a string and values in order");
    drv_status status = put_all(c, v, args, &text);
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

static drv_status filter_tojson(jinja_context *context, const value *self, const call_args *args,
        value *out) {
    tojson_opts opts = {.indent = -1,
            .item_separator = value_text(", "),
            .key_separator = value_text(": ")};
    DRV_TRY(call_check(args, "tojson", 0, 4, "ensure_ascii indent separators sort_keys"));
    // transformers' order: ensure_ascii, indent, separators, sort_keys
    const value *ascii = call_arg(args, 0, "ensure_ascii"), *indent = call_arg(args, 1, "indent");
    const value *separators = call_arg(args, 2, "separators"),
                *sort = call_arg(args, 3, "sort_keys");
    opts.ascii = ascii && value_true(ascii);
    DRV_TRY(filter_whole(indent, "tojson", &opts.indent));
    if (opts.indent > 100)
        return drv_fail(DRV_E_DATA, "tojson: an indent of %lld", (long long)opts.indent);
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
        {"wordcount", filter_wordcount},
        {0},
};
