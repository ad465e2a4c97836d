// Python's "%s" % values, and "{}".format(values): docs.python.org/3/library/stdtypes.html
// (printf-style String Formatting) and library/string.html (Format String Syntax).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_filters_internal.h"

// How one value is shown.
typedef struct shape {
    const value *fill; // a character; NULL: a space
    char align;        // '<' '>' '^' '=' (the filling comes after the sign), 0: as the kind has it
    char sign;         // '+' ' ' or 0
    bool alternate, zero;
    char grouping; // ',' or '_' between thousands, or 0
    int64_t width, precision;
    char kind; // 0: none was given
} shape;

static int64_t read_digits(const char **p, const char *end) {
    int64_t n = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
        n = n < JINJA_MAX_OUTPUT ? n * 10 + **p - '0' : n;
    return n;
}

static drv_status pad(const char *text, size_t n, const shape *how, char align, str *out) {
    const int64_t more = how->width - text_length(text, n);
    if (how->width > JINJA_MAX_OUTPUT)
        return drv_fail(DRV_E_DATA, "format: a width of more than %d", JINJA_MAX_OUTPUT);
    if (how->align) align = how->align;
    const size_t head = align == '=' ? strspn(text, "+- ") : 0;
    const int64_t left = align == '<' ? 0 : align == '^' ? more / 2 : more;
    str_add(out, text, head);
    for (int64_t i = 0; i < more; i++) {
        if (i == left) str_add(out, text + head, n - head);
        if (how->fill)
            str_add(out, how->fill->s.p, how->fill->s.n);
        else
            str_puts(out, how->zero ? "0" : " ");
    }
    if (more <= 0 || left >= more) str_add(out, text + head, n - head);
    return DRV_OK;
}

static drv_status put_text(const value *shown, const shape *how, char align, str *out) {
    size_t n = shown->s.n;
    if (how->precision >= 0) n = text_offset(shown->s.p, n, how->precision);
    return pad(n ? shown->s.p : "", n, how, align, out);
}

// Digits with a sign before them and a mark between thousands.
static drv_status put_digits(const char *digits, bool negative, const char *prefix,
        const shape *how, str *out) {
    str text = {0};
    const size_t n = strlen(digits), whole = strspn(digits, "0123456789");
    if (negative || how->sign) str_puts(&text, negative ? "-" : (char[2]){how->sign, 0});
    str_puts(&text, prefix);
    for (size_t i = 0; i < n; i++) {
        if (how->grouping && i && i < whole && (whole - i) % 3 == 0)
            str_add(&text, &how->grouping, 1);
        str_add(&text, digits + i, 1);
    }
    shape padded = *how;
    if (how->zero && !how->align) padded.align = '=';
    drv_status status = pad(text.p, text.n, &padded, '>', out);
    str_free(&text);
    return status;
}

static drv_status put_whole(int64_t i, const shape *how, str *out) {
    char digits[80];
    const uint64_t size = i < 0 ? -(uint64_t)i : (uint64_t)i;
    const char kind = how->kind, *prefix = "";
    int length = 0;
    if (kind == 'b') {
        for (int bit = 63; bit >= 0; bit--)
            if (length || size >> bit & 1 || bit == 0)
                digits[length++] = (char)('0' + (size >> bit & 1));
        digits[length] = 0;
    } else {
        snprintf(digits, sizeof digits,
                kind == 'x'   ? "%llx"
                : kind == 'X' ? "%llX"
                : kind == 'o' ? "%llo"
                              : "%llu",
                (unsigned long long)size);
    }
    if (how->alternate)
        prefix = kind == 'x'   ? "0x"
                 : kind == 'X' ? "0X"
                 : kind == 'o' ? "0o"
                 : kind == 'b' ? "0b"
                               : "";
    if (how->precision > 60) return drv_fail(DRV_E_DATA, "format: a precision of more than 60");
    const int64_t zeros = how->precision - (int64_t)strlen(digits);
    if (zeros > 0) { // of "%.5d"
        memmove(digits + zeros, digits, strlen(digits) + 1);
        memset(digits, '0', (size_t)zeros);
    }
    return put_digits(digits, i < 0, prefix, how, out);
}

static drv_status put_real(double x, const shape *how, str *out) {
    char digits[512], spec[] = "%#.*f";
    const bool percent = how->kind == '%';
    const int precision = how->precision < 0 ? 6 : (int)how->precision;
    if (precision > 100) return drv_fail(DRV_E_DATA, "format: a precision of more than 100");
    spec[4] = percent ? 'f' : how->kind;
    if (!how->alternate) memmove(spec + 1, spec + 2, sizeof spec - 2);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(digits, sizeof digits - 1, spec, precision, fabs(percent ? x * 100 : x));
#pragma GCC diagnostic pop
    if (percent) memcpy(digits + strlen(digits), "%", 2);
    return put_digits(digits, signbit(x) != 0 && !isnan(x), "", how, out);
}

static drv_status cannot(char kind, const value *v) {
    return drv_fail(DRV_E_DATA, "format: \"%c\" cannot show %s", kind ? kind : ' ',
            value_type_name(v));
}

static drv_status put_character(const value *v, const shape *how, str *out) {
    char text[5] = "";
    if (v->kind == VALUE_STRING && text_length(v->s.p, v->s.n) == 1)
        memcpy(text, v->s.p, v->s.n);
    else if (v->kind != VALUE_INT || text_encode(v->i, text) == 0)
        return cannot('c', v);
    return pad(text, strlen(text), how, '>', out);
}

static drv_status put_number(const value *v, const shape *how, str *out) {
    if (!value_is_number(v)) return cannot(how->kind, v);
    if (!strchr("bdixXo", how->kind)) return put_real(value_real(v), how, out);
    if (v->kind == VALUE_FLOAT && !(fabs(v->f) < 0x1p62)) return cannot(how->kind, v);
    return put_whole(v->kind == VALUE_FLOAT ? (int64_t)v->f
                     : v->kind == VALUE_INT ? v->i
                                            : v->b,
            how, out);
}

static drv_status put_printed(jinja_context *c, const value *v, bool as_repr, const shape *how,
        char align, str *out) {
    str shown = {0};
    value text;
    DRV_TRY(jinja_printable(v));
    if (as_repr)
        value_repr(v, &shown);
    else
        value_print(v, &shown);
    DRV_TRY(jinja_take(c, &shown, &text));
    return put_text(&text, how, align, out);
}

// --- "%s" % values

typedef struct percent_place {
    shape how;
    value key; // of "%(key)s"; none: the next value
    bool star; // the width is a value
} percent_place;

static drv_status read_percent(const char **at, const char *end, percent_place *out) {
    *out = (percent_place){.how = {.precision = -1, .align = '>'}, .key = value_none()};
    if (*at < end && **at == '(') {
        const char *close = memchr(*at, ')', (size_t)(end - *at));
        if (!close) return drv_fail(DRV_E_DATA, "format: \"%%(\" without \")\"");
        out->key = value_slice(*at + 1, (size_t)(close - *at) - 1);
        *at = close + 1;
    }
    bool left = false;
    for (; *at < end && strchr("-+ 0#", **at); (*at)++) {
        left |= **at == '-';
        out->how.zero |= **at == '0';
        out->how.alternate |= **at == '#';
        if (**at == '+' || (**at == ' ' && !out->how.sign)) out->how.sign = **at;
    }
    if (*at < end && **at == '*') {
        out->star = true;
        (*at)++;
    } else {
        out->how.width = read_digits(at, end);
    }
    if (*at < end && **at == '.') {
        (*at)++;
        out->how.precision = read_digits(at, end);
    }
    while (*at < end && strchr("hlL", **at)) // which mean nothing
        (*at)++;
    if (*at == end) return drv_fail(DRV_E_DATA, "format: the text ends inside a place");
    out->how.kind = *(*at)++;
    out->how.align = left ? '<' : 0;
    if (left) out->how.zero = false;
    return DRV_OK;
}

static drv_status put_percent(jinja_context *c, percent_place *place, const value *v, str *out) {
    shape *how = &place->how;
    if (how->kind == 'u') how->kind = 'd';
    if (how->kind == 's' || how->kind == 'r') {
        const bool as_repr = how->kind == 'r';
        how->zero = false;
        return put_printed(c, v, as_repr, how, '>', out);
    }
    if (how->kind == 'c') return put_character(v, how, out);
    if (!strchr("dixXofFeEgG", how->kind)) return cannot(how->kind, v);
    return put_number(v, how, out);
}

static drv_status next_value(const call_args *args, int *next, const value **out) {
    if (*next >= args->n) return drv_fail(DRV_E_DATA, "format has more places than values");
    *out = &args->v[(*next)++];
    return DRV_OK;
}

static drv_status percent_all(jinja_context *context, const value *format, const call_args *args,
        str *out) {
    const value_kind kind = args->n == 1 ? args->v[0].kind : VALUE_NONE;
    const char *at = format->s.p, *end = at + format->s.n;
    int next = 0;
    while (at < end && out->n <= JINJA_MAX_OUTPUT) {
        percent_place place;
        const value *self = NULL;
        if (*at != '%') {
            str_add(out, at++, 1);
            continue;
        }
        at++;
        DRV_TRY(read_percent(&at, end, &place));
        if (place.how.kind == '%') {
            str_puts(out, "%");
            continue;
        }
        if (place.star) {
            DRV_TRY(next_value(args, &next, &self));
            if (self->kind != VALUE_INT)
                return drv_fail(DRV_E_DATA, "format: * wants a whole number");
            place.how.width = self->i < 0 ? -(self->i + 1) : self->i;
            if (self->i < 0) return drv_fail(DRV_E_DATA, "format: a negative width");
        }
        if (place.key.kind == VALUE_STRING) {
            if (kind != VALUE_DICT) return drv_fail(DRV_E_DATA, "format: %%( ) wants a mapping");
            self = value_dict_get(args->v[0].dict, &place.key);
            if (!self)
                return drv_fail(DRV_E_DATA, "format: the mapping has no \"%.*s\"",
                        (int)(place.key.s.n < 60 ? place.key.s.n : 60), place.key.s.p);
        } else {
            DRV_TRY(next_value(args, &next, &self));
        }
        DRV_TRY(put_percent(context, &place, self, out));
    }
    // Python takes one list or dict for a mapping, and a format need not use all of a mapping.
    const bool mapping = kind == VALUE_DICT || kind == VALUE_LIST || kind == VALUE_UNDEFINED;
    if (next < args->n && !mapping)
        return drv_fail(DRV_E_DATA, "format has more values than places");
    return DRV_OK;
}

drv_status jinja_format_percent(jinja_context *c, const value *format, const call_args *args,
        value *out) {
    str text = {0};
    drv_status status = percent_all(c, format, args, &text);
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

// --- "{}".format(values)

// [[fill]align][sign][#][0][width][grouping][.precision][kind]
static drv_status read_spec(const value *spec, shape *out, value *fill) {
    const char *at = spec->s.p, *end = at + spec->s.n;
    *out = (shape){.precision = -1};
    if (at < end) {
        size_t n;
        text_char_at(at, (size_t)(end - at), &n);
        if (at + n < end && strchr("<>=^", at[n])) {
            *fill = value_slice(at, n);
            out->fill = fill;
            out->align = at[n];
            at += n + 1;
        } else if (strchr("<>=^", *at)) {
            out->align = *at++;
        }
    }
    if (at < end && strchr("+- ", *at)) {
        out->sign = *at == '-' ? 0 : *at;
        at++;
    }
    if (at < end && *at == '#') {
        out->alternate = true;
        at++;
    }
    if (at < end && *at == '0') {
        out->zero = !out->fill;
        at++;
    }
    out->width = read_digits(&at, end);
    if (at < end && (*at == ',' || *at == '_')) out->grouping = *at++;
    if (at < end && *at == '.') {
        at++;
        out->precision = read_digits(&at, end);
    }
    if (at < end) out->kind = *at++;
    if (at < end || (out->kind && !strchr("sbcdoxXeEfFgG%", out->kind)) ||
            (out->grouping && (out->zero || !strchr("dfF%", out->kind ? out->kind : 'd'))))
        return drv_fail(DRV_E_DATA, "format: \"%.*s\" is not supported",
                (int)(spec->s.n < 60 ? spec->s.n : 60), spec->s.p);
    return DRV_OK;
}

static drv_status put_formatted(jinja_context *c, const value *v, const value *spec, str *out) {
    shape how;
    value fill = value_none();
    DRV_TRY(read_spec(spec, &how, &fill));
    if (!spec->s.n) return put_printed(c, v, false, &how, '<', out);
    if (v->kind == VALUE_STRING) {
        if (how.kind && how.kind != 's') return cannot(how.kind, v);
        if (how.sign || how.align == '=' || how.alternate || how.grouping) return cannot('s', v);
        return put_text(v, &how, '<', out);
    }
    if (!value_is_number(v) || how.kind == 's') return cannot(how.kind, v);
    const bool whole = v->kind != VALUE_FLOAT;
    if (!how.kind && !whole)
        return drv_fail(DRV_E_DATA, "format: a float wants one of e, f, g and %% in its place");
    if (!how.kind) how.kind = 'd';
    if (how.kind == 'c') return put_character(v, &how, out);
    if (strchr("bdoxX", how.kind) && (!whole || how.precision >= 0)) return cannot(how.kind, v);
    return put_number(v, &how, out);
}

// The value that "0", "name", "0.attribute" or "0[key]" names; "" is the next one.
static drv_status find_field(jinja_context *context, const value *name, const call_args *args,
        int *next, value *out) {
    const int n_positional = args->n - args->n_keywords;
    size_t length = 0;
    while (length < name->s.n && name->s.p[length] != '.' && name->s.p[length] != '[')
        length++;
    const value *found = NULL;
    const char *at = name->s.p, *end = at + length;
    const int64_t index = length ? read_digits(&at, end) : (*next)++;
    if (at == end && index < n_positional) found = &args->v[index];
    for (int k = 0; k < args->n_keywords && at < end; k++)
        if (args->keywords[k].s.n == length &&
                memcmp(args->keywords[k].s.p, name->s.p, length) == 0)
            found = &args->v[n_positional + k];
    if (!found)
        return drv_fail(DRV_E_DATA, "format has no value for \"{%.*s}\"",
                (int)(name->s.n < 60 ? name->s.n : 60), name->s.p);
    *out = *found;
    for (at = name->s.p + length, end = name->s.p + name->s.n; at < end;) {
        const bool item = *at++ == '[';
        size_t part = 0;
        while (at + part < end && !(item ? at[part] == ']' : at[part] == '.' || at[part] == '['))
            part++;
        value key = value_slice(at, part), from = *out;
        const char *digit = at;
        const int64_t number = read_digits(&digit, at + part);
        if (item && part && digit == at + part) key = value_int(number);
        DRV_TRY(item ? jinja_item(context, &from, &key, out)
                     : jinja_attribute(context, &from, &key, out));
        DRV_TRY(jinja_defined(out));
        at += part + (item && at + part < end);
    }
    return DRV_OK;
}

// After "{": the field up to "}".
static drv_status put_field(jinja_context *context, const char **cursor, const char *end,
        const call_args *args, int *next, str *out) {
    const char *at = *cursor, *close = memchr(at, '}', (size_t)(end - at));
    if (!close || memchr(at, '{', (size_t)(close - at)))
        return drv_fail(DRV_E_DATA, "format: \"{\" without \"}\", or with another one inside");
    size_t n_name = 0;
    while (at + n_name < close && at[n_name] != ':' && at[n_name] != '!')
        n_name++;
    const value name = value_slice(at, n_name);
    at += n_name;
    char conversion = 0;
    if (at < close && *at == '!') {
        conversion = at + 1 < close ? at[1] : '?';
        at += 2;
    }
    if ((conversion && conversion != 's' && conversion != 'r') || (at < close && *at != ':'))
        return drv_fail(DRV_E_DATA, "format: a conversion is \"!s\" or \"!r\"");
    const value spec = at < close ? value_slice(at + 1, (size_t)(close - at) - 1) : value_text("");
    value v;
    DRV_TRY(find_field(context, &name, args, next, &v));
    if (conversion) {
        str shown = {0};
        DRV_TRY(put_printed(context, &v, conversion == 'r', &(shape){.precision = -1}, '<',
                &shown));
        DRV_TRY(jinja_take(context, &shown, &v));
    }
    *cursor = close + 1;
    return put_formatted(context, &v, &spec, out);
}

static drv_status braces_all(jinja_context *c, const value *format, const call_args *args,
        str *out) {
    const char *p = format->s.p, *end = p + format->s.n;
    int next = 0;
    while (p < end && out->n <= JINJA_MAX_OUTPUT) {
        const char letter = *p++;
        const bool twice = p < end && *p == letter;
        if (letter != '{' && letter != '}') {
            str_add(out, &letter, 1);
        } else if (twice) {
            str_add(out, p++, 1);
        } else if (letter == '}') {
            return drv_fail(DRV_E_DATA, "format: \"}\" without \"{\"");
        } else {
            DRV_TRY(put_field(c, &p, end, args, &next, out));
        }
    }
    return DRV_OK;
}

drv_status jinja_format_braces(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    str text = {0};
    drv_status status = braces_all(c, &f->self, args, &text);
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}
