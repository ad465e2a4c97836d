// The filters of Jinja 2 (v | name) that chat templates use: those of single values, and the
// look-up by name; jinja_filters_lists.c, _order.c and _text.c have the others.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_filters_internal.h"

drv_status filter_no_args(const call_args *args, const char *what) {
    return call_check(args, what, 0, 0, "");
}

// --- numbers

enum { NUMBER_BYTES = 80 };

// Copies the text of a number without the underscores between its digits; false: it is empty, or
// too long for a number.
static bool number_text(const value *of, int (*is_digit)(int), char text[NUMBER_BYTES]) {
    size_t n = 0;
    if (of->s.n == 0 || of->s.n >= NUMBER_BYTES) return false;
    for (size_t i = 0; i < of->s.n; i++) {
        const char *p = of->s.p + i;
        const bool between = *p == '_' && i && i + 1 < of->s.n && is_digit((unsigned char)p[-1]) &&
                             is_digit((unsigned char)p[1]);
        if (!between) text[n++] = *p;
    }
    text[n] = 0;
    return true;
}

// Reads a number as Python's float() does, infinity and nan included, but not C's 0x10 and nan(1).
// A number that is too large becomes infinite.
static bool is_real(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return !strpbrk(text, "xX(") && end != text && !*end;
}

// Makes a whole number of a real one; infinity and nan have none, and leave *out as it is.
static drv_status whole_part(double real, value *out) {
    if (isfinite(real) && !(fabs(real) < 0x1p63))
        return drv_fail(DRV_E_DATA, "int: a number is beyond 64 bits");
    if (isfinite(real)) *out = value_int((int64_t)real);
    return DRV_OK;
}

static drv_status filter_int(jinja_context *c DRV_UNUSED, const value *self, const call_args *args,
        value *out) {
    DRV_TRY(call_check(args, "int", 0, 2, "default base"));
    DRV_TRY(jinja_defined(self));
    const value *otherwise = call_arg(args, 0, "default");
    int64_t base = 10;
    DRV_TRY(call_whole(call_arg(args, 1, "base"), "int", &base));
    *out = otherwise ? *otherwise : value_int(0);
    int64_t whole;
    if (value_whole(self, &whole)) *out = value_int(whole);
    if (self->kind == VALUE_FLOAT) return whole_part(self->f, out);
    if (self->kind != VALUE_STRING) return DRV_OK;
    const value trimmed = text_strip(self, NULL, true, true);
    char text[NUMBER_BYTES], *end;
    if (base < 2 || base > 36 || !number_text(&trimmed, isalnum, text)) return DRV_OK;
    double real;
    errno = 0;
    const long long i = strtoll(text, &end, (int)base);
    if (*end) return base == 10 && is_real(text, &real) ? whole_part(real, out) : DRV_OK;
    if (errno) return drv_fail(DRV_E_DATA, "int: a number is beyond 64 bits");
    *out = value_int(i);
    return DRV_OK;
}

static drv_status filter_float(jinja_context *c DRV_UNUSED, const value *v, const call_args *args,
        value *out) {
    DRV_TRY(call_check(args, "float", 0, 1, "default"));
    DRV_TRY(jinja_defined(v));
    const value *otherwise = call_arg(args, 0, "default");
    *out = otherwise ? *otherwise : value_float(0);
    if (value_is_number(v)) *out = value_float(value_real(v));
    if (v->kind != VALUE_STRING) return DRV_OK;
    const value trimmed = text_strip(v, NULL, true, true);
    char text[NUMBER_BYTES];
    double x;
    if (number_text(&trimmed, isdigit, text) && is_real(text, &x)) *out = value_float(x);
    return DRV_OK;
}

// --- any value

static drv_status filter_default(jinja_context *c DRV_UNUSED, const value *v, const call_args *args,
        value *out) {
    DRV_TRY(call_check(args, "default", 0, 2, "default_value boolean"));
    const value *otherwise = call_arg(args, 0, "default_value"),
                *boolean = call_arg(args, 1, "boolean");
    const bool missing =
            v->kind == VALUE_UNDEFINED || (boolean && value_true(boolean) && !value_true(v));
    *out = !missing ? *v : otherwise ? *otherwise : value_text("");
    return DRV_OK;
}

static const filter_row filters_of_values[] = {
        {"d", filter_default},
        {"default", filter_default},
        {"float", filter_float},
        {"int", filter_int},
        {0},
};

// Runs a filter that is a method of v's text, if `name` is one.
static drv_status by_method(jinja_context *c, const value *name, const value *v,
        const call_args *args, bool *found, value *out) {
    static const char *const filters[] = {"capitalize", "lower", "trim", "upper"},
                             *const methods[] = {"capitalize", "lower", "strip", "upper"};
    value text, method;
    int i = 0;
    while (i < 4 && !value_is(name, filters[i]))
        i++;
    *found = i < 4;
    if (i == 4) return DRV_OK;
    const value method_name = value_text(methods[i]);
    DRV_TRY(filter_text(c, v, &text));
    DRV_TRY(jinja_method(c, &text, &method_name, found, &method));
    return jinja_call(c, &method, args, out);
}

// Returns a filter by name; NULL: there is none.
static const filter_row *filter_named(const value *name) {
    const filter_row *const tables[] = {filters_of_values, filters_of_lists, filters_of_order,
            filters_of_text};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const filter_row *row = tables[i]; row->name; row++)
            if (value_is(name, row->name)) return row;
    return NULL;
}

drv_status jinja_filter(jinja_context *c, const value *name, const value *v, const call_args *args,
        value *out) {
    DRV_TRY(jinja_charge(c, 1 + jinja_text_steps(v)));
    if (++c->depth > JINJA_MAX_DEPTH) return drv_fail(DRV_E_DATA, "filters are nested too deeply");
    const filter_row *row = filter_named(name);
    bool found = row;
    DRV_TRY(row ? row->run(c, v, args, out) : by_method(c, name, v, args, &found, out));
    c->depth--;
    if (found) return DRV_OK;
    if (name->kind != VALUE_STRING)
        return drv_fail(DRV_E_DATA, "a filter is named by a string, found %s",
                value_type_name(name));
    return drv_fail(DRV_E_DATA, "filter \"%.*s\" is not supported",
            (int)(name->s.n < 60 ? name->s.n : 60), name->s.p);
}
