// Tests (v is name) and the functions that every template can call.
#include <math.h>
#include <string.h>

#include "base/round.h"
#include "chat/jinja_text_internal.h"

typedef drv_status (*test)(jinja_context *c, const value *v, const value *arg, bool *out);

typedef enum test_kind {
    IS_DEFINED,
    IS_UNDEFINED,
    IS_NONE,
    IS_STRING,
    IS_NUMBER,
    IS_INTEGER,
    IS_FLOAT,
    IS_BOOLEAN,
    IS_TRUE,
    IS_FALSE,
    IS_MAPPING,
    IS_ITERABLE,
    IS_SEQUENCE,
    IS_ODD,
    IS_EVEN, // up to here without an argument
    IS_EQUAL,
    IS_UNEQUAL,
    IS_LESS,
    IS_AT_MOST,
    IS_MORE,
    IS_AT_LEAST,
    IS_IN,
    IS_SAME, // with one argument
} test_kind;

static const struct {
    const char *name;
    test_kind kind;
} tests[] = {
        {"defined", IS_DEFINED},
        {"undefined", IS_UNDEFINED},
        {"none", IS_NONE},
        {"string", IS_STRING},
        {"number", IS_NUMBER},
        {"integer", IS_INTEGER},
        {"float", IS_FLOAT},
        {"boolean", IS_BOOLEAN},
        {"true", IS_TRUE},
        {"false", IS_FALSE},
        {"mapping", IS_MAPPING},
        {"iterable", IS_ITERABLE},
        {"sequence", IS_SEQUENCE},
        {"odd", IS_ODD},
        {"even", IS_EVEN},
        {"equalto", IS_EQUAL},
        {"eq", IS_EQUAL},
        {"==", IS_EQUAL},
        {"ne", IS_UNEQUAL},
        {"!=", IS_UNEQUAL},
        {"lt", IS_LESS},
        {"<", IS_LESS},
        {"le", IS_AT_MOST},
        {"<=", IS_AT_MOST},
        {"gt", IS_MORE},
        {">", IS_MORE},
        {"ge", IS_AT_LEAST},
        {">=", IS_AT_LEAST},
        {"in", IS_IN},
        {"sameas", IS_SAME},
};

static drv_status parity_test(const value *v, test_kind kind, bool *out) {
    if (v->kind == VALUE_FLOAT) {
        const double rest = fmod(v->f, 2), wanted = kind == IS_ODD ? 1 : 0;
        *out = !isnan(rest) && !(fabs(rest) < wanted) && !(fabs(rest) > wanted);
        return DRV_OK;
    }
    if (v->kind != VALUE_INT && v->kind != VALUE_BOOL)
        return drv_fail(DRV_E_DATA, "odd and even expect whole numbers, found %s",
                value_type_name(v));
    const int64_t rest = (v->kind == VALUE_INT ? v->i : v->b) % 2;
    *out = (rest == 0) == (kind == IS_EVEN);
    return DRV_OK;
}

static drv_status order_test(jinja_context *c, const value *v, const value *arg, test_kind kind,
        bool *out) {
    int order;
    DRV_TRY(value_compare(&c->m, v, arg, &order));
    *out = kind == IS_LESS      ? order < 0
           : kind == IS_AT_MOST ? order <= 0
           : kind == IS_MORE    ? order > 0
                                : order >= 0;
    return DRV_OK;
}

static bool is_of_kind(const value *self, test_kind kind) {
    switch (kind) {
    case IS_DEFINED:
        return self->kind != VALUE_UNDEFINED;
    case IS_UNDEFINED:
        return self->kind == VALUE_UNDEFINED;
    case IS_NONE:
        return self->kind == VALUE_NONE;
    case IS_STRING:
        return self->kind == VALUE_STRING;
    case IS_NUMBER:
        return value_is_number(self) || self->kind == VALUE_BIG_INT;
    case IS_INTEGER:
        return self->kind == VALUE_INT || self->kind == VALUE_BIG_INT;
    case IS_FLOAT:
        return self->kind == VALUE_FLOAT;
    case IS_BOOLEAN:
        return self->kind == VALUE_BOOL;
    case IS_TRUE:
        return self->kind == VALUE_BOOL && self->b;
    case IS_FALSE:
        return self->kind == VALUE_BOOL && !self->b;
    case IS_MAPPING:
        return self->kind == VALUE_DICT;
    case IS_ITERABLE:
        return self->kind == VALUE_GENERATOR || self->kind == VALUE_STRING ||
               self->kind == VALUE_LIST || self->kind == VALUE_DICT ||
               self->kind == VALUE_UNDEFINED;
    default: // a sequence: what has a length and items
        if (self->kind == VALUE_LIST) return !list_is_view(self->list->form);
        return self->kind == VALUE_STRING || self->kind == VALUE_DICT ||
               self->kind == VALUE_UNDEFINED;
    }
}

// Returns Python's `a is b`; compares texts and numbers, whose identity is not reliable, by value.
static bool is_same(const value *a, const value *b) {
    if (a->kind != b->kind) return false;
    if (a->kind == VALUE_LIST) return a->list == b->list;
    return a->kind == VALUE_DICT ? a->dict == b->dict : value_equal(NULL, a, b);
}

drv_status jinja_test(jinja_context *c, const value *name, const value *self, const call_args *args,
        bool *out) {
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!value_is(name, tests[i].name)) continue;
        const test_kind kind = tests[i].kind;
        const int n_args = kind >= IS_EQUAL;
        DRV_TRY(call_check(args, tests[i].name, n_args, n_args, "other seq"));
        switch (kind) {
        case IS_ODD:
        case IS_EVEN:
            return parity_test(self, kind, out);
        case IS_LESS:
        case IS_AT_MOST:
        case IS_MORE:
        case IS_AT_LEAST:
            return order_test(c, self, &args->v[0], kind, out);
        case IS_IN:
            return jinja_contains(c, &args->v[0], self, out);
        case IS_EQUAL:
        case IS_UNEQUAL:
            *out = value_equal(&c->m, self, &args->v[0]) == (kind == IS_EQUAL);
            return DRV_OK;
        case IS_SAME:
            *out = is_same(self, &args->v[0]);
            return DRV_OK;
        default:
            *out = is_of_kind(self, kind);
            return DRV_OK;
        }
    }
    if (name->kind != VALUE_STRING)
        return drv_fail(DRV_E_DATA, "a test is named by a string, found %s", value_type_name(name));
    return drv_fail(DRV_E_DATA, "test \"%.*s\" is not supported",
            (int)(name->s.n < 60 ? name->s.n : 60), name->s.p);
}

// --- functions

static drv_status raise_exception(jinja_context *c, const value_function *f DRV_UNUSED,
        const call_args *args, value *out DRV_UNUSED) {
    str text = {0};
    DRV_TRY(call_check(args, "raise_exception", 1, 1, "message"));
    value_print(&args->v[0], &text);
    c->raised = true;
    drv_status status = drv_fail(DRV_E_DATA, "%s", text.p ? text.p : "");
    str_free(&text);
    return status;
}

static drv_status strftime_now(jinja_context *c, const value_function *function DRV_UNUSED,
        const call_args *args, value *out) {
    char format[256], text[1024];
    DRV_TRY(call_check(args, "strftime_now", 1, 1, "format"));
    if (args->v[0].kind != VALUE_STRING || args->v[0].s.n >= sizeof format)
        return drv_fail(DRV_E_DATA, "strftime_now expects a short format, found %s",
                value_type_name(&args->v[0]));
    // As in Python without a time zone, %Z and %z print nothing; C lacks %f, microseconds.
    size_t n_format = 0;
    for (size_t i = 0; i < args->v[0].s.n; i++) {
        const char *p = args->v[0].s.p + i;
        const char kind = *p == '%' && i + 1 < args->v[0].s.n ? p[1] : 0;
        const bool dropped = kind == 'Z' || kind == 'z';
        const char *put = kind == 'f' ? "000000" : dropped ? "" : p;
        const size_t n_put = kind == 'f' ? 6 : dropped ? 0 : kind ? 2 : 1;
        if (n_format + n_put >= sizeof format)
            return drv_fail(DRV_E_DATA, "strftime_now expects a short format");
        memcpy(format + n_format, put, n_put);
        n_format += n_put;
        i += kind != 0;
    }
    format[n_format] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t n = strftime(text, sizeof text, format, &c->now);
#pragma GCC diagnostic pop
    return value_copy_string(&c->m, text, n, out);
}

// Makes a dict of dict(pairs or mapping, k=v), or a namespace of the same.
static drv_status make_dict(jinja_context *c, const value_function *self, const call_args *args,
        value *out) {
    const int n_positional = args->n - args->n_keywords;
    if (n_positional > 1) return drv_fail(DRV_E_DATA, "%s takes at most one mapping", self->name);
    DRV_TRY(value_new_dict(&c->m, out));
    const value *from = n_positional ? &args->v[0] : NULL;
    value pairs = value_none();
    if (from && from->kind == VALUE_GENERATOR) { // can be iterated over once
        pairs = *from;
        pairs.kind = VALUE_LIST;
        from = &pairs;
    }
    if (from && from->kind != VALUE_DICT && from->kind != VALUE_LIST)
        return drv_fail(DRV_E_DATA, "%s expects a mapping, found %s", self->name,
                value_type_name(from));
    for (int64_t i = 0; from && from->kind == VALUE_DICT && i < from->dict->keys.n; i++)
        DRV_TRY(value_dict_set(&c->m, out->dict, from->dict->keys.v[i], from->dict->values.v[i]));
    for (int64_t i = 0; from && from->kind == VALUE_LIST && i < from->list->n; i++) {
        const value *pair = &from->list->v[i];
        if (pair->kind != VALUE_LIST || pair->list->n != 2)
            return drv_fail(DRV_E_DATA, "%s expects pairs", self->name);
        DRV_TRY(jinja_charge(c, out->dict->keys.n));
        DRV_TRY(value_dict_set(&c->m, out->dict, pair->list->v[0], pair->list->v[1]));
    }
    for (int k = 0; k < args->n_keywords; k++)
        DRV_TRY(value_dict_set(&c->m, out->dict, args->keywords[k], args->v[n_positional + k]));
    if (self->name[0] == 'n') out->kind = VALUE_NAMESPACE;
    for (int64_t i = 0; self->name[0] == 'n' && i < out->dict->keys.n; i++)
        if (out->dict->keys.v[i].kind == VALUE_STRING && out->dict->keys.v[i].s.n &&
                out->dict->keys.v[i].s.p[0] == '_')
            return drv_fail(DRV_E_DATA, "a namespace takes no attribute that begins with \"_\"");
    return DRV_OK;
}

static drv_status range(jinja_context *c, const value_function *self DRV_UNUSED,
        const call_args *args, value *out) {
    int64_t bound[3] = {0, 0, 1};
    DRV_TRY(call_check(args, "range", 1, 3, ""));
    for (int i = 0; i < args->n; i++) {
        if (args->v[i].kind != VALUE_INT && args->v[i].kind != VALUE_BOOL)
            return drv_fail(DRV_E_DATA, "range expects whole numbers, found %s",
                    value_type_name(&args->v[i]));
        bound[args->n == 1 ? 1 : i] = args->v[i].kind == VALUE_INT ? args->v[i].i : args->v[i].b;
    }
    const int64_t limit = 1LL << 40, step = bound[2];
    for (int i = 0; i < 3; i++)
        if (bound[i] > limit || bound[i] < -limit)
            return drv_fail(DRV_E_DATA, "range is too large");
    if (step == 0) return drv_fail(DRV_E_DATA, "range of step 0");
    const int64_t distance = step > 0 ? bound[1] - bound[0] : bound[0] - bound[1],
                  size = step > 0 ? step : -step;
    const int64_t n = distance > 0 ? div_up(distance, size) : 0;
    if (n > JINJA_MAX_RANGE)
        return drv_fail(DRV_E_DATA, "range of %lld items, at most %d", (long long)n,
                JINJA_MAX_RANGE);
    DRV_TRY(value_new_list(&c->m, out));
    for (int64_t i = 0; i < n; i++)
        DRV_TRY(value_list_add(&c->m, out->list, value_int(bound[0] + i * step)));
    out->list->form = LIST_RANGE;
    return DRV_OK;
}

// Refuses a function that Jinja has and no chat template needs: the name is defined, and a call
// fails.
static drv_status refuse(jinja_context *c DRV_UNUSED, const value_function *f,
        const call_args *args DRV_UNUSED, value *out DRV_UNUSED) {
    return drv_fail(DRV_E_DATA, "%s() is not supported", f->name);
}

drv_status jinja_add_globals(jinja_context *c) {
    static const struct {
        const char *name;
        native_function call;
    } functions[] = {{"raise_exception", raise_exception}, {"strftime_now", strftime_now},
            {"namespace", make_dict}, {"dict", make_dict}, {"range", range}, {"joiner", refuse},
            {"cycler", refuse}, {"lipsum", refuse}, {"self", refuse}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        value f;
        DRV_TRY(jinja_new_function(c,
                &(value_function){.name = functions[i].name, .native = functions[i].call}, &f));
        DRV_TRY(value_dict_set(&c->m, &c->globals->names, value_text(functions[i].name), f));
    }
    return DRV_OK;
}
