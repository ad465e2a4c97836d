// Tests (v is name) and the functions that every template can call.
#include <math.h>
#include <string.h>

#include "base/round.h"
#include "chat/jinja_text_internal.h"

// --- tests

#define KIND(name) (1u << VALUE_##name)
static const struct {
    const char *name;
    unsigned kinds; // of values for which it holds
} tests_of_kind[] = {
        {"defined", ~KIND(UNDEFINED)}, {"undefined", KIND(UNDEFINED)}, {"none", KIND(NONE)},
        {"string", KIND(STRING)}, {"number", KIND(BOOL) | KIND(INT) | KIND(FLOAT) | KIND(BIG_INT)},
        {"integer", KIND(INT) | KIND(BIG_INT)}, {"float", KIND(FLOAT)}, {"boolean", KIND(BOOL)},
        {"mapping", KIND(DICT)},
        {"iterable", KIND(GENERATOR) | KIND(STRING) | KIND(LIST) | KIND(DICT) | KIND(UNDEFINED)},
        {"sequence", KIND(STRING) | KIND(LIST) | KIND(DICT) | KIND(UNDEFINED)}, // views are none
};

static const struct {
    const char *name;
    char op; // of EXPR_COMPARE
} tests_with_argument[] = {{"equalto", '='}, {"eq", '='}, {"==", '='}, {"ne", '!'}, {"!=", '!'},
        {"lt", '<'}, {"<", '<'}, {"le", 'l'}, {"<=", 'l'}, {"gt", '>'}, {">", '>'}, {"ge", 'g'},
        {">=", 'g'}, {"in", 'i'}};

static drv_status parity_test(const value *v, bool odd, bool *out) {
    int64_t whole;
    if (v->kind == VALUE_FLOAT) {
        const double rest = fmod(v->f, 2), wanted = odd ? 1 : 0;
        *out = !isnan(rest) && !(fabs(rest) < wanted) && !(fabs(rest) > wanted);
        return DRV_OK;
    }
    if (!value_whole(v, &whole))
        return drv_fail(DRV_E_DATA, "odd and even expect whole numbers, found %s",
                value_type_name(v));
    *out = (whole % 2 != 0) == odd;
    return DRV_OK;
}

// Returns Python's `a is b`; compares texts and numbers, whose identity is not reliable, by value.
static bool is_same(const value *a, const value *b) {
    if (a->kind != b->kind) return false;
    if (a->kind == VALUE_LIST) return a->list == b->list;
    return a->kind == VALUE_DICT ? a->dict == b->dict : value_equal(NULL, a, b);
}

drv_status jinja_test(jinja_context *c, const value *name, const value *self, const call_args *args,
        bool *out) {
    for (size_t i = 0; i < sizeof tests_of_kind / sizeof *tests_of_kind; i++) {
        if (!value_is(name, tests_of_kind[i].name)) continue;
        const bool view = self->kind == VALUE_LIST && list_is_view(self->list->form);
        *out = (tests_of_kind[i].kinds >> self->kind & 1) && !(view && value_is(name, "sequence"));
        return call_check(args, tests_of_kind[i].name, 0, 0, "");
    }
    for (size_t i = 0; i < sizeof tests_with_argument / sizeof *tests_with_argument; i++) {
        if (!value_is(name, tests_with_argument[i].name)) continue;
        DRV_TRY(call_check(args, tests_with_argument[i].name, 1, 1, "other seq"));
        return jinja_compare(c, tests_with_argument[i].op, self, &args->v[0], out);
    }
    if (value_is(name, "true") || value_is(name, "false")) {
        *out = self->kind == VALUE_BOOL && self->b == value_is(name, "true");
        return call_check(args, "true and false", 0, 0, "");
    }
    if (value_is(name, "odd") || value_is(name, "even")) {
        DRV_TRY(call_check(args, "odd and even", 0, 0, ""));
        return parity_test(self, value_is(name, "odd"), out);
    }
    if (value_is(name, "sameas")) {
        DRV_TRY(call_check(args, "sameas", 1, 1, "other"));
        *out = is_same(self, &args->v[0]);
        return DRV_OK;
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
        if (!value_whole(&args->v[i], &bound[args->n == 1 ? 1 : i]))
            return drv_fail(DRV_E_DATA, "range expects whole numbers, found %s",
                    value_type_name(&args->v[i]));
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
