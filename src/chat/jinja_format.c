// Python's "%s" % values, and "{}".format(values): docs.python.org/3/library/stdtypes.html
// (printf-style String Formatting) and library/string.html (Format String Syntax). What no chat
// template uses is refused: names, signs, thousands, bases and exponents.
#include <math.h>
#include <string.h>

#include "chat/jinja_eval_internal.h"

typedef struct percent_spec { // %[-][0][width][.precision]kind
    bool left, zero;
    int64_t width, precision; // precision -1: none was given
    char kind;
} percent_spec;

// The longest width and precision: a template that wants more is mistaken.
enum { MAX_WIDTH = 1000, MAX_PRECISION = 60 };

static int64_t read_digits(const char **p, const char *end) {
    int64_t n = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
        n = n < JINJA_MAX_OUTPUT ? n * 10 + **p - '0' : n;
    return n;
}

static drv_status read_percent(const char **cursor, const char *end, percent_spec *out) {
    const char *begin = *cursor;
    *out = (percent_spec){.precision = -1};
    for (; *cursor < end && (**cursor == '-' || **cursor == '0'); (*cursor)++) {
        out->left |= **cursor == '-';
        out->zero |= **cursor == '0';
    }
    out->width = read_digits(cursor, end);
    if (*cursor < end && **cursor == '.') {
        (*cursor)++;
        out->precision = read_digits(cursor, end);
    }
    if (*cursor < end) out->kind = *(*cursor)++;
    if (!out->kind || !strchr("srdif%", out->kind) || out->width > MAX_WIDTH ||
            out->precision > MAX_PRECISION)
        return drv_fail(DRV_E_DATA, "format: \"%%%.*s\" is not supported",
                (int)(*cursor - begin < 60 ? *cursor - begin : 60), begin);
    return DRV_OK;
}

static void pad(const char *text, size_t n, const percent_spec *spec, str *out) {
    if (n == 0) text = ""; // an empty str has no memory
    const bool number = spec->kind != 's' && spec->kind != 'r',
               zeros = number && spec->zero && !spec->left;
    const size_t sign = zeros && n && *text == '-';
    const int64_t more = spec->width - text_length(text, n);
    str_add(out, text, sign);
    for (int64_t i = 0; i < more && !spec->left; i++)
        str_puts(out, zeros ? "0" : " ");
    str_add(out, text + sign, n - sign);
    for (int64_t i = 0; i < more && spec->left; i++)
        str_puts(out, " ");
}

static drv_status put_number(const value *v, const percent_spec *spec, str *out) {
    char text[512];
    if (!value_is_number(v) || (spec->kind != 'f' && !(fabs(value_real(v)) < 0x1p63)))
        return drv_fail(DRV_E_DATA, "format: \"%c\" cannot show %s", spec->kind,
                value_type_name(v));
    if (spec->kind == 'f')
        snprintf(text, sizeof text, "%.*f", spec->precision < 0 ? 6 : (int)spec->precision,
                value_real(v));
    else
        snprintf(text, sizeof text, "%lld",
                v->kind == VALUE_FLOAT ? (long long)v->f
                : v->kind == VALUE_INT ? (long long)v->i
                                       : (long long)v->b);
    pad(text, strlen(text), spec, out);
    return DRV_OK;
}

static drv_status put_printed(const value *v, const percent_spec *spec, str *out) {
    str shown = {0};
    DRV_TRY(jinja_printable(v));
    if (spec->kind == 'r')
        value_repr(v, &shown);
    else
        value_print(v, &shown);
    if (spec->precision >= 0) shown.n = text_offset(shown.p, shown.n, spec->precision);
    pad(shown.p, shown.n, spec, out);
    str_free(&shown);
    return DRV_OK;
}

static drv_status percent_all(const value *format, const call_args *args, str *out) {
    const char *cursor = format->s.p, *end = cursor + format->s.n;
    int next = 0;
    while (cursor < end && out->n <= JINJA_MAX_OUTPUT) {
        percent_spec spec;
        if (*cursor != '%') {
            str_add(out, cursor++, 1);
            continue;
        }
        cursor++;
        DRV_TRY(read_percent(&cursor, end, &spec));
        if (spec.kind == '%') {
            str_puts(out, "%");
            continue;
        }
        if (next >= args->n) return drv_fail(DRV_E_DATA, "format has more places than values");
        const value *v = &args->v[next++];
        DRV_TRY(spec.kind == 's' || spec.kind == 'r' ? put_printed(v, &spec, out)
                                                     : put_number(v, &spec, out));
    }
    // Python treats a single list or dict as a mapping, which may stay unused.
    const value_kind kind = args->n == 1 ? args->v[0].kind : VALUE_NONE;
    if (next < args->n && kind != VALUE_DICT && kind != VALUE_LIST && kind != VALUE_UNDEFINED)
        return drv_fail(DRV_E_DATA, "format has more values than places");
    return DRV_OK;
}

drv_status jinja_format_percent(jinja_context *c, const value *format, const call_args *args,
        value *out) {
    str text = {0};
    drv_status status = percent_all(format, args, &text);
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

// Formats the field after "{", up to "}", which is empty, a number or a name.
static drv_status put_field(const char **cursor, const char *end, const call_args *args, int *next,
        str *out) {
    const int n_positional = args->n - args->n_keywords;
    const char *name = *cursor, *digits = name, *close = memchr(name, '}', (size_t)(end - name));
    const size_t n = close ? (size_t)(close - name) : 0;
    for (size_t i = 0; i < n; i++)
        if (strchr("{!:.[", name[i])) close = NULL;
    if (!close)
        return drv_fail(DRV_E_DATA, "format: \"{%.*s\" is not supported",
                (int)(end - name < 60 ? end - name : 60), name);
    const value *found = NULL;
    const int64_t index = n ? read_digits(&digits, close) : (*next)++;
    if (digits == close && index < n_positional) found = &args->v[index];
    for (int k = 0; k < args->n_keywords && digits < close; k++)
        if (args->keywords[k].s.n == n && memcmp(args->keywords[k].s.p, name, n) == 0)
            found = &args->v[n_positional + k];
    if (!found)
        return drv_fail(DRV_E_DATA, "format has no value for \"{%.*s}\"", (int)(n < 60 ? n : 60),
                name);
    *cursor = close + 1;
    return put_printed(found, &(percent_spec){.kind = 's', .precision = -1}, out);
}

static drv_status braces_all(const value *format, const call_args *args, str *out) {
    const char *p = format->s.p, *end = p + format->s.n;
    int next = 0;
    while (p < end && out->n <= JINJA_MAX_OUTPUT) {
        const char letter = *p++;
        const bool twice = p < end && *p == letter;
        if (letter != '{' && letter != '}')
            str_add(out, &letter, 1);
        else if (twice)
            str_add(out, p++, 1);
        else if (letter == '}')
            return drv_fail(DRV_E_DATA, "format: \"}\" without \"{\"");
        else
            DRV_TRY(put_field(&p, end, args, &next, out));
    }
    return DRV_OK;
}

drv_status jinja_format_braces(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    str text = {0};
    drv_status status = braces_all(&f->self, args, &text);
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}
