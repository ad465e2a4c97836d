// Runs the tree of a template. Semantics are those of Jinja 2 in transformers' sandbox; time,
// memory and output are bounded.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_eval_internal.h"

drv_status jinja_charge(jinja_context *c, int64_t steps) {
    c->steps += steps;
    if (c->steps > JINJA_MAX_STEPS) return drv_fail(DRV_E_DATA, "the template runs too long");
    return DRV_OK;
}

drv_status jinja_defined(const value *v) {
    if (v->kind != VALUE_UNDEFINED) return DRV_OK;
    return drv_fail(DRV_E_DATA, "\"%.*s\" is undefined", (int)(v->s.n < 80 ? v->s.n : 80),
            v->s.n ? v->s.p : "");
}

drv_status jinja_take(jinja_context *c, str *text, value *out) {
    drv_status status = value_copy_string(&c->m, text->p, text->n, out);
    str_free(text);
    return status;
}

drv_status jinja_new_function(jinja_context *c, const value_function *f, value *out) {
    void *p;
    DRV_TRY(value_alloc(&c->m, sizeof *f, &p));
    memcpy(p, f, sizeof *f);
    *out = (value){.kind = VALUE_FUNCTION, .function = p};
    return DRV_OK;
}

// --- names

static drv_status open_scope(jinja_context *c, scope *outer, scope **out) {
    void *p;
    DRV_TRY(value_alloc(&c->m, sizeof(scope), &p));
    *out = p;
    (*out)->outer = outer;
    return DRV_OK;
}

static value look_up(const jinja_context *c, const value *name) {
    for (const scope *s = c->scope; s; s = s->outer) {
        const value *v = value_dict_get(&s->names, name);
        if (v) return *v;
    }
    return value_undefined(name->s.p, name->s.n);
}

static drv_status assign(jinja_context *c, const expr *target, value v) {
    if (target->kind == EXPR_NAME) return value_dict_set(&c->m, &c->scope->names, target->name, v);
    if (target->kind == EXPR_ATTRIBUTE) {
        const value object = look_up(c, &target->a->name);
        if (object.kind != VALUE_NAMESPACE)
            return drv_fail(DRV_E_DATA, "only a namespace's attributes can be set, \"%.*s\" is %s",
                    (int)target->a->name.s.n, target->a->name.s.p, value_type_name(&object));
        if (target->name.s.n && target->name.s.p[0] == '_')
            return drv_fail(DRV_E_DATA, "a namespace takes no attribute that begins with \"_\"");
        return value_dict_set(&c->m, object.dict, target->name, v);
    }
    value_list items = {0};
    DRV_TRY(jinja_items(c, &v, &items));
    if (items.n != target->n_args)
        return drv_fail(DRV_E_DATA, "%lld values cannot be given to %d names", (long long)items.n,
                target->n_args);
    for (int i = 0; i < target->n_args; i++)
        DRV_TRY(assign(c, target->args[i], items.v[i]));
    return DRV_OK;
}

// --- attributes and items

drv_status jinja_attribute(jinja_context *c, const value *v, const value *name, value *out) {
    DRV_TRY(jinja_defined(v));
    const value *found = NULL;
    bool method = false;
    if (v->kind == VALUE_NAMESPACE) found = value_dict_get(v->dict, name);
    if (v->kind == VALUE_FUNCTION && v->function->attributes)
        found = value_dict_get(v->function->attributes, name);
    if (!found) DRV_TRY(jinja_method(c, v, name, &method, out));
    if (method) return DRV_OK;
    if (!found && v->kind == VALUE_DICT) found = value_dict_get(v->dict, name);
    *out = found ? *found : value_undefined(name->s.p, name->s.n);
    return DRV_OK;
}

static drv_status index_of(const value *index, int64_t n, int64_t *out) {
    *out = index->kind == VALUE_BOOL ? index->b : index->i;
    if (*out < 0) *out += n;
    return DRV_OK;
}

drv_status jinja_item(jinja_context *c, const value *v, const value *index, value *out) {
    DRV_TRY(jinja_defined(v));
    const bool number = index->kind == VALUE_INT || index->kind == VALUE_BOOL;
    int64_t i = 0;
    *out = value_undefined("", 0);
    if (v->kind == VALUE_DICT) {
        const value *found = value_dict_get(v->dict, index);
        if (found) {
            *out = *found;
            return DRV_OK;
        }
    } else if (v->kind == VALUE_LIST && number) {
        DRV_TRY(index_of(index, v->list->n, &i));
        if (i >= 0 && i < v->list->n) *out = v->list->v[i];
        return DRV_OK;
    } else if (v->kind == VALUE_STRING && number) {
        const int64_t n = text_length(v->s.p, v->s.n);
        DRV_TRY(jinja_charge(c, (int64_t)v->s.n / 64));
        DRV_TRY(index_of(index, n, &i));
        if (i < 0 || i >= n) return DRV_OK;
        const size_t from = text_offset(v->s.p, v->s.n, i), rest = v->s.n - from;
        *out = value_slice(v->s.p + from, text_offset(v->s.p + from, rest, 1));
        return DRV_OK;
    }
    return index->kind == VALUE_STRING ? jinja_attribute(c, v, index, out) : DRV_OK;
}

// Python's slice.indices: first, how many, and the step, of n items.
static drv_status slice_range(const value part[3], int64_t n, int64_t *first, int64_t *count,
        int64_t *step) {
    int64_t bound[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++) {
        if (part[i].kind != VALUE_NONE && part[i].kind != VALUE_INT && part[i].kind != VALUE_BOOL)
            return drv_fail(DRV_E_DATA, "a slice is made of whole numbers, found %s",
                    value_type_name(&part[i]));
        if (part[i].kind != VALUE_NONE)
            bound[i] = part[i].kind == VALUE_INT ? part[i].i : part[i].b;
    }
    *step = bound[2];
    if (*step == 0 || *step < -(1LL << 40) || *step > 1LL << 40)
        return drv_fail(DRV_E_DATA, "a slice of step %lld", (long long)*step);
    const int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? n - 1 : n;
    for (int i = 0; i < 2; i++) {
        if (part[i].kind == VALUE_NONE) {
            bound[i] = (i == 0) == (*step > 0) ? low : high;
            continue;
        }
        if (bound[i] < 0) bound[i] += n;
        bound[i] = bound[i] < low ? low : bound[i] > high ? high : bound[i];
    }
    *first = bound[0];
    const int64_t distance = *step > 0 ? bound[1] - bound[0] : bound[0] - bound[1],
                  size = llabs(*step);
    *count = distance > 0 ? (distance + size - 1) / size : 0;
    return DRV_OK;
}

static drv_status slice_string(jinja_context *c, const value *v, const value part[3], value *out) {
    int64_t first, count, step;
    DRV_TRY(jinja_charge(c, (int64_t)v->s.n / 16));
    DRV_TRY(slice_range(part, text_length(v->s.p, v->s.n), &first, &count, &step));
    const size_t from = text_offset(v->s.p, v->s.n, first);
    if (step == 1) {
        *out = value_slice(v->s.p + from, text_offset(v->s.p + from, v->s.n - from, count));
        return DRV_OK;
    }
    size_t *begin = mem_alloc(sizeof *begin * (v->s.n + 1)), n = 0; // of each code point
    for (size_t i = 0; i < v->s.n; i++)
        if (((unsigned char)v->s.p[i] & 0xC0) != 0x80) begin[n++] = i;
    begin[n] = v->s.n;
    str text = {0};
    for (int64_t i = 0; i < count; i++) {
        const size_t at = (size_t)(first + i * step);
        str_add(&text, v->s.p + begin[at], begin[at + 1] - begin[at]);
    }
    free(begin);
    return jinja_take(c, &text, out);
}

static drv_status eval_slice(jinja_context *c, const expr *e, value *out) {
    value v, part[3];
    DRV_TRY(jinja_eval(c, e->a, &v));
    for (int i = 0; i < 3; i++)
        DRV_TRY(jinja_eval(c, e->args[i], &part[i]));
    DRV_TRY(jinja_defined(&v));
    if (v.kind == VALUE_STRING) return slice_string(c, &v, part, out);
    *out = value_undefined("slice", 5);
    if (v.kind != VALUE_LIST) return DRV_OK;
    int64_t first, count, step;
    DRV_TRY(slice_range(part, v.list->n, &first, &count, &step));
    DRV_TRY(jinja_charge(c, count));
    DRV_TRY(value_new_list(&c->m, out));
    out->list->tuple = v.list->tuple;
    for (int64_t i = 0; i < count; i++)
        DRV_TRY(value_list_add(&c->m, out->list, v.list->v[first + i * step]));
    return DRV_OK;
}

drv_status jinja_items(jinja_context *c, const value *v, value_list *out) {
    switch (v->kind) {
    case VALUE_UNDEFINED:
        return DRV_OK;
    case VALUE_LIST:
        DRV_TRY(jinja_charge(c, v->list->n));
        *out = *v->list;
        out->cap = out->n; // what is added goes elsewhere
        return DRV_OK;
    case VALUE_DICT:
        DRV_TRY(jinja_charge(c, v->dict->keys.n));
        *out = v->dict->keys;
        out->cap = out->n;
        return DRV_OK;
    case VALUE_STRING:
        DRV_TRY(jinja_charge(c, (int64_t)v->s.n));
        for (size_t i = 0; i < v->s.n;) {
            const size_t n = text_offset(v->s.p + i, v->s.n - i, 1);
            DRV_TRY(value_list_add(&c->m, out, value_slice(v->s.p + i, n)));
            i += n;
        }
        return DRV_OK;
    default:
        return drv_fail(DRV_E_DATA, "%s cannot be iterated over", value_type_name(v));
    }
}

drv_status jinja_contains(jinja_context *c, const value *v, const value *item, bool *out) {
    *out = false;
    if (v->kind == VALUE_UNDEFINED) return DRV_OK;
    if (v->kind == VALUE_STRING) {
        if (item->kind != VALUE_STRING)
            return drv_fail(DRV_E_DATA, "a string holds strings, found %s", value_type_name(item));
        DRV_TRY(jinja_charge(c, (int64_t)v->s.n / 32));
        *out = item->s.n == 0 || (v->s.n && memmem(v->s.p, v->s.n, item->s.p, item->s.n));
        return DRV_OK;
    }
    if (v->kind == VALUE_DICT) {
        DRV_TRY(jinja_charge(c, v->dict->keys.n / 4));
        *out = value_dict_get(v->dict, item) != NULL;
        return DRV_OK;
    }
    if (v->kind != VALUE_LIST)
        return drv_fail(DRV_E_DATA, "%s cannot be searched by \"in\"", value_type_name(v));
    DRV_TRY(jinja_charge(c, v->list->n / 4));
    for (int64_t i = 0; i < v->list->n && !*out; i++)
        *out = value_equal(&v->list->v[i], item);
    return DRV_OK;
}

// --- operators

static drv_status no_operator(char op, const value *a, const value *b) {
    const char shown[] = {op == 'f'   ? '/'
                          : op == 'p' ? '*'
                                      : op,
            op == 'f'   ? '/'
            : op == 'p' ? '*'
                        : 0,
            0};
    return drv_fail(DRV_E_DATA, "%s %s %s is not defined", value_type_name(a), shown,
            value_type_name(b));
}

static drv_status whole_power(int64_t base, int64_t exponent, int64_t *out) {
    *out = 1;
    for (; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(*out, base, out))
            return drv_fail(DRV_E_DATA, "a number is beyond 64 bits");
        if (base == 0 || base == 1) break;
        if (base == -1) {
            *out = exponent % 2 ? -1 : 1;
            break;
        }
    }
    return DRV_OK;
}

static drv_status whole_arithmetic(char op, int64_t a, int64_t b, value *out) {
    int64_t x = 0;
    bool over = false;
    if ((op == '/' || op == 'f' || op == '%') && b == 0)
        return drv_fail(DRV_E_DATA, "division by zero");
    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &x);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &x);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &x);
        break;
    case 'f':
    case '%': // Python rounds down: the rest has the divisor's sign
        over = a == INT64_MIN && b == -1;
        if (over) break;
        x = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        if (op == '%') x = a - x * b;
        break;
    case 'p':
        if (b < 0) {
            *out = value_float(pow((double)a, (double)b));
            return DRV_OK;
        }
        DRV_TRY(whole_power(a, b, &x));
        break;
    default:
        *out = value_float((double)a / (double)b);
        return DRV_OK;
    }
    if (over) return drv_fail(DRV_E_DATA, "a number is beyond 64 bits");
    *out = value_int(x);
    return DRV_OK;
}

static drv_status real_arithmetic(char op, double a, double b, value *out) {
    const bool by_zero = !(b < 0) && !(b > 0) && !isnan(b);
    if ((op == '/' || op == 'f' || op == '%') && by_zero)
        return drv_fail(DRV_E_DATA, "division by zero");
    double rest = op == '%' ? fmod(a, b) : 0;
    if (op == '%' && (rest < 0 || rest > 0) && (rest < 0) != (b < 0)) rest += b;
    *out = value_float(op == '+'   ? a + b
                       : op == '-' ? a - b
                       : op == '*' ? a * b
                       : op == '/' ? a / b
                       : op == 'f' ? floor(a / b)
                       : op == '%' ? rest
                                   : pow(a, b));
    return DRV_OK;
}

static drv_status join_lists(jinja_context *c, const value_list *a, const value_list *b,
        value *out) {
    DRV_TRY(value_new_list(&c->m, out));
    out->list->tuple = a->tuple;
    DRV_TRY(jinja_charge(c, a->n + b->n));
    for (int64_t i = 0; i < a->n + b->n; i++)
        DRV_TRY(value_list_add(&c->m, out->list, i < a->n ? a->v[i] : b->v[i - a->n]));
    return DRV_OK;
}

static drv_status join_strings(jinja_context *c, const value *a, const value *b, value *out) {
    void *p;
    DRV_TRY(value_alloc(&c->m, a->s.n + b->s.n, &p));
    if (a->s.n) memcpy(p, a->s.p, a->s.n);
    if (b->s.n) memcpy((char *)p + a->s.n, b->s.p, b->s.n);
    *out = value_slice(p, a->s.n + b->s.n);
    return DRV_OK;
}

static drv_status repeat(jinja_context *c, const value *v, int64_t times, value *out) {
    if (times < 0) times = 0;
    if (v->kind == VALUE_STRING) {
        void *p;
        size_t bytes;
        if (__builtin_mul_overflow(v->s.n, (size_t)times, &bytes)) bytes = SIZE_MAX / 2;
        DRV_TRY(value_alloc(&c->m, bytes, &p));
        for (int64_t i = 0; i < times && v->s.n; i++)
            memcpy((char *)p + (size_t)i * v->s.n, v->s.p, v->s.n);
        *out = value_slice(p, bytes);
        return DRV_OK;
    }
    DRV_TRY(value_new_list(&c->m, out));
    out->list->tuple = v->list->tuple;
    for (int64_t i = 0; i < times && v->list->n; i++) {
        DRV_TRY(jinja_charge(c, v->list->n));
        for (int64_t k = 0; k < v->list->n; k++)
            DRV_TRY(value_list_add(&c->m, out->list, v->list->v[k]));
    }
    return DRV_OK;
}

// "%s and %d" % (a, b)
static drv_status format_string(jinja_context *c, const value *format, const value *v, value *out) {
    const call_args all = {v->kind == VALUE_LIST && v->list->tuple ? v->list->v : v,
            v->kind == VALUE_LIST && v->list->tuple ? (int)v->list->n : 1, NULL, 0};
    const value name = value_text("format");
    return jinja_filter(c, &name, format, &all, out);
}

static drv_status eval_binary(jinja_context *c, const expr *e, value *out) {
    value a, b;
    DRV_TRY(jinja_eval(c, e->a, &a));
    DRV_TRY(jinja_eval(c, e->b, &b));
    if (e->op == '~') {
        str text = {0};
        value_print(&a, &text);
        value_print(&b, &text);
        return jinja_take(c, &text, out);
    }
    DRV_TRY(jinja_defined(&a));
    DRV_TRY(jinja_defined(&b));
    const bool whole = a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT;
    if (value_is_number(&a) && value_is_number(&b))
        return whole ? whole_arithmetic(e->op, a.kind == VALUE_INT ? a.i : a.b,
                               b.kind == VALUE_INT ? b.i : b.b, out)
                     : real_arithmetic(e->op, value_real(&a), value_real(&b), out);
    if (e->op == '+' && a.kind == VALUE_STRING && b.kind == VALUE_STRING)
        return join_strings(c, &a, &b, out);
    if (e->op == '+' && a.kind == VALUE_LIST && b.kind == VALUE_LIST &&
            a.list->tuple == b.list->tuple)
        return join_lists(c, a.list, b.list, out);
    const bool whole_a = a.kind == VALUE_INT || a.kind == VALUE_BOOL,
               whole_b = b.kind == VALUE_INT || b.kind == VALUE_BOOL;
    if (e->op == '*' && (a.kind == VALUE_STRING || a.kind == VALUE_LIST) && whole_b)
        return repeat(c, &a, b.kind == VALUE_INT ? b.i : b.b, out);
    if (e->op == '*' && (b.kind == VALUE_STRING || b.kind == VALUE_LIST) && whole_a)
        return repeat(c, &b, a.kind == VALUE_INT ? a.i : a.b, out);
    if (e->op == '%' && a.kind == VALUE_STRING) return format_string(c, &a, &b, out);
    return no_operator(e->op, &a, &b);
}

static drv_status compare_once(jinja_context *c, char op, const value *a, const value *b,
        bool *out) {
    int order;
    if (a->kind == VALUE_STRING) DRV_TRY(jinja_charge(c, (int64_t)a->s.n / 64));
    if (op == '=' || op == '!') {
        *out = value_equal(a, b) == (op == '=');
        return DRV_OK;
    }
    if (op == 'i' || op == 'n') {
        DRV_TRY(jinja_contains(c, b, a, out));
        *out = *out == (op == 'i');
        return DRV_OK;
    }
    DRV_TRY(jinja_defined(a));
    DRV_TRY(jinja_defined(b));
    DRV_TRY(value_compare(a, b, &order));
    *out = op == '<' ? order < 0 : op == '>' ? order > 0 : op == 'l' ? order <= 0 : order >= 0;
    return DRV_OK;
}

static drv_status eval_compare(jinja_context *c, const expr *e, value *out) {
    value a, b;
    bool holds = true;
    DRV_TRY(jinja_eval(c, e->a, &a));
    for (int i = 0; i < e->n_args && holds; i++) {
        DRV_TRY(jinja_eval(c, e->args[i], &b));
        DRV_TRY(compare_once(c, e->ops[i], &a, &b, &holds));
        a = b;
    }
    *out = value_bool(holds);
    return DRV_OK;
}

static drv_status eval_unary(jinja_context *c, const expr *e, value *out) {
    DRV_TRY(jinja_eval(c, e->a, out));
    DRV_TRY(jinja_defined(out));
    if (!value_is_number(out))
        return drv_fail(DRV_E_DATA, "%c%s is not defined", e->op, value_type_name(out));
    if (out->kind == VALUE_BOOL) *out = value_int(out->b);
    if (e->op == '-' && out->kind == VALUE_FLOAT) out->f = -out->f;
    if (e->op == '-' && out->kind == VALUE_INT) return whole_arithmetic('-', 0, out->i, out);
    return DRV_OK;
}

// --- calls

static drv_status eval_args(jinja_context *c, const expr *e, call_args *out) {
    void *p = NULL;
    if (e->n_args) DRV_TRY(value_alloc(&c->m, sizeof(value) * (size_t)e->n_args, &p));
    value *v = p;
    for (int i = 0; i < e->n_args; i++)
        DRV_TRY(jinja_eval(c, e->args[i], &v[i]));
    *out = (call_args){v, e->n_args, e->keywords, e->n_keywords};
    return DRV_OK;
}

// Runs a body with its text caught in *out.
static drv_status caught(jinja_context *c, const stmt_list *body, value *out) {
    str text = {0}, *outer = c->out;
    c->out = &text;
    drv_status status = jinja_run(c, body);
    c->out = outer;
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

static drv_status bind_parameters(jinja_context *c, const value_function *f,
        const call_args *args) {
    const macro_parameters *p = &f->macro->parameters;
    const int n_positional = args->n - args->n_keywords;
    if (n_positional > p->n)
        return drv_fail(DRV_E_DATA, "macro %s takes at most %d arguments, found %d", f->name, p->n,
                n_positional);
    for (int k = 0; k < args->n_keywords; k++) {
        bool known = value_is(&args->keywords[k], "caller");
        for (int i = 0; i < p->n && !known; i++)
            known = value_equal(&p->names[i], &args->keywords[k]);
        if (!known)
            return drv_fail(DRV_E_DATA, "macro %s has no parameter \"%.*s\"", f->name,
                    (int)args->keywords[k].s.n, args->keywords[k].s.p);
    }
    for (int i = 0; i < p->n; i++) {
        value v = value_undefined(p->names[i].s.p, p->names[i].s.n);
        bool given = i < n_positional;
        if (given) v = args->v[i];
        for (int k = 0; k < args->n_keywords && !given; k++)
            if (value_equal(&args->keywords[k], &p->names[i])) {
                v = args->v[n_positional + k];
                given = true;
            }
        if (!given && p->defaults[i]) DRV_TRY(jinja_eval(c, p->defaults[i], &v));
        DRV_TRY(value_dict_set(&c->m, &c->scope->names, p->names[i], v));
    }
    return DRV_OK;
}

static drv_status call_macro(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    scope *outer = c->scope, *inner;
    DRV_TRY(open_scope(c, f->outer, &inner));
    c->scope = inner;
    drv_status status = bind_parameters(c, f, args);
    if (status == DRV_OK && f->caller.kind == VALUE_FUNCTION)
        status = value_dict_set(&c->m, &inner->names, value_text("caller"), f->caller);
    if (status == DRV_OK) status = caught(c, &f->macro->body, out);
    c->scope = outer;
    return status;
}

drv_status jinja_call(jinja_context *c, const value *callee, const call_args *args, value *out) {
    DRV_TRY(jinja_defined(callee));
    if (callee->kind != VALUE_FUNCTION || (!callee->function->macro && !callee->function->native))
        return drv_fail(DRV_E_DATA, "%s cannot be called", value_type_name(callee));
    DRV_TRY(jinja_charge(c, 1));
    if (++c->depth > JINJA_MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "the template calls itself too deeply");
    const value_function *f = callee->function;
    drv_status status = f->macro ? call_macro(c, f, args, out) : f->native(c, f, args, out);
    c->depth--;
    return status;
}

// --- expressions

static drv_status eval_list(jinja_context *c, const expr *e, value *out) {
    DRV_TRY(value_new_list(&c->m, out));
    out->list->tuple = e->tuple;
    for (int i = 0; i < e->n_args; i++) {
        value v;
        DRV_TRY(jinja_eval(c, e->args[i], &v));
        DRV_TRY(value_list_add(&c->m, out->list, v));
    }
    return DRV_OK;
}

static drv_status eval_dict(jinja_context *c, const expr *e, value *out) {
    DRV_TRY(value_new_dict(&c->m, out));
    for (int i = 0; i < e->n_args; i += 2) {
        value key, v;
        DRV_TRY(jinja_eval(c, e->args[i], &key));
        DRV_TRY(jinja_eval(c, e->args[i + 1], &v));
        if (key.kind == VALUE_LIST || key.kind == VALUE_DICT)
            return drv_fail(DRV_E_DATA, "%s cannot be a key", value_type_name(&key));
        DRV_TRY(value_dict_set(&c->m, out->dict, key, v));
    }
    return DRV_OK;
}

static drv_status eval_logic(jinja_context *c, const expr *e, value *out) {
    DRV_TRY(jinja_eval(c, e->a, out));
    if (e->kind == EXPR_NOT) {
        *out = value_bool(!value_true(out));
        return DRV_OK;
    }
    if (e->kind == EXPR_IF) {
        if (value_true(out)) return jinja_eval(c, e->b, out);
        *out = value_undefined("", 0);
        return e->c ? jinja_eval(c, e->c, out) : DRV_OK;
    }
    return value_true(out) == (e->kind == EXPR_AND) ? jinja_eval(c, e->b, out) : DRV_OK;
}

static drv_status eval_named(jinja_context *c, const expr *e, value *out) {
    value v;
    call_args args;
    bool holds;
    DRV_TRY(jinja_eval(c, e->a, &v));
    DRV_TRY(eval_args(c, e, &args));
    c->line = e->line;
    if (e->kind == EXPR_FILTER) return jinja_filter(c, &e->name, &v, &args, out);
    DRV_TRY(jinja_test(c, &e->name, &v, &args, &holds));
    *out = value_bool(holds);
    return DRV_OK;
}

static drv_status eval_kind(jinja_context *c, const expr *e, value *out) {
    value a, b;
    call_args args;
    switch (e->kind) {
    case EXPR_CONSTANT:
        *out = e->constant;
        return DRV_OK;
    case EXPR_NAME:
        *out = look_up(c, &e->name);
        return DRV_OK;
    case EXPR_LIST:
        return eval_list(c, e, out);
    case EXPR_DICT:
        return eval_dict(c, e, out);
    case EXPR_ATTRIBUTE:
        DRV_TRY(jinja_eval(c, e->a, &a));
        return jinja_attribute(c, &a, &e->name, out);
    case EXPR_ITEM:
        DRV_TRY(jinja_eval(c, e->a, &a));
        DRV_TRY(jinja_eval(c, e->b, &b));
        return jinja_item(c, &a, &b, out);
    case EXPR_SLICE:
        return eval_slice(c, e, out);
    case EXPR_CALL:
        DRV_TRY(jinja_eval(c, e->a, &a));
        DRV_TRY(eval_args(c, e, &args));
        c->line = e->line;
        return jinja_call(c, &a, &args, out);
    case EXPR_FILTER:
    case EXPR_TEST:
        return eval_named(c, e, out);
    case EXPR_UNARY:
        return eval_unary(c, e, out);
    case EXPR_BINARY:
        return eval_binary(c, e, out);
    case EXPR_COMPARE:
        return eval_compare(c, e, out);
    default:
        return eval_logic(c, e, out);
    }
}

drv_status jinja_eval(jinja_context *c, const expr *e, value *out) {
    DRV_TRY(jinja_charge(c, 1));
    if (++c->depth > JINJA_MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "an expression is nested too deeply");
    DRV_TRY(eval_kind(c, e, out));
    c->depth--;
    return DRV_OK;
}

// --- statements

static drv_status print(jinja_context *c, const value *v) {
    value_print(v, c->out);
    if (c->out->n > JINJA_MAX_OUTPUT)
        return drv_fail(DRV_E_DATA, "the template writes more than %s",
                str_bytes(JINJA_MAX_OUTPUT));
    return DRV_OK;
}

static drv_status set_attribute(jinja_context *c, value_dict *d, const char *name, value v) {
    return value_dict_set(&c->m, d, value_text(name), v);
}

static drv_status loop_cycle(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    const value name = value_text("index0"), *index = value_dict_get(f->self.dict, &name);
    (void)c;
    if (!args->n) return drv_fail(DRV_E_DATA, "loop.cycle takes at least one value");
    *out = args->v[index->i % args->n];
    return DRV_OK;
}

static drv_status loop_changed(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    value now;
    const value name = value_text("_last"), *last = value_dict_get(f->self.dict, &name);
    DRV_TRY(value_new_list(&c->m, &now));
    for (int i = 0; i < args->n; i++)
        DRV_TRY(value_list_add(&c->m, now.list, args->v[i]));
    *out = value_bool(!last || !value_equal(last, &now));
    return value_dict_set(&c->m, f->self.dict, name, now);
}

static drv_status run_loop(jinja_context *c, const stmt *s, const value *over, int depth);

// loop(items): the loop again, one level deeper.
static drv_status loop_again(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    const value name = value_text("depth"), *depth = value_dict_get(f->attributes, &name);
    str text = {0}, *outer = c->out;
    scope *inner = c->scope;
    DRV_TRY(call_check(args, "loop", 1, 1, ""));
    c->out = &text;
    c->scope = f->outer;
    drv_status status =
            run_loop(c, (const stmt *)(const void *)f->self.s.p, &args->v[0], (int)depth->i);
    c->scope = inner;
    c->out = outer;
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

static drv_status new_loop(jinja_context *c, const stmt *s, int depth, value *loop,
        value_dict **attributes) {
    value dict, method;
    DRV_TRY(value_new_dict(&c->m, &dict));
    *attributes = dict.dict;
    value_function f = {.name = "loop", .attributes = dict.dict, .outer = c->scope};
    if (s->recursive) {
        f.native = loop_again;
        f.self.s.p = (const char *)s; // not text: the statement, for loop_again
    }
    DRV_TRY(jinja_new_function(c, &f, loop));
    DRV_TRY(jinja_new_function(c,
            &(value_function){.name = "cycle", .native = loop_cycle, .self = dict}, &method));
    DRV_TRY(set_attribute(c, dict.dict, "cycle", method));
    DRV_TRY(jinja_new_function(c,
            &(value_function){.name = "changed", .native = loop_changed, .self = dict}, &method));
    DRV_TRY(set_attribute(c, dict.dict, "changed", method));
    DRV_TRY(set_attribute(c, dict.dict, "depth", value_int(depth + 1)));
    return set_attribute(c, dict.dict, "depth0", value_int(depth));
}

static drv_status turn_loop(jinja_context *c, value_dict *d, const value_list *items, int64_t i) {
    const struct {
        const char *name;
        value v;
    } list[] = {{"index", value_int(i + 1)}, {"index0", value_int(i)},
            {"revindex", value_int(items->n - i)}, {"revindex0", value_int(items->n - i - 1)},
            {"first", value_bool(i == 0)}, {"last", value_bool(i == items->n - 1)},
            {"length", value_int(items->n)},
            {"previtem", i ? items->v[i - 1] : value_undefined("previtem", 8)},
            {"nextitem", i + 1 < items->n ? items->v[i + 1] : value_undefined("nextitem", 8)}};
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
        DRV_TRY(set_attribute(c, d, list[k].name, list[k].v));
    return DRV_OK;
}

// The items for which the loop's condition holds.
static drv_status chosen_items(jinja_context *c, const stmt *s, const value *over,
        value_list *out) {
    value_list all = {0};
    DRV_TRY(jinja_items(c, over, &all));
    *out = all;
    if (!s->condition) return DRV_OK;
    *out = (value_list){0};
    for (int64_t i = 0; i < all.n; i++) {
        value holds;
        DRV_TRY(assign(c, s->target, all.v[i]));
        DRV_TRY(jinja_eval(c, s->condition, &holds));
        if (value_true(&holds)) DRV_TRY(value_list_add(&c->m, out, all.v[i]));
    }
    return DRV_OK;
}

// In a scope of its own, which is the current one.
static drv_status run_turns(jinja_context *c, const stmt *s, const value *over, int depth) {
    value_list items;
    value loop;
    value_dict *attributes;
    DRV_TRY(chosen_items(c, s, over, &items));
    if (!items.n) return jinja_run(c, &s->otherwise);
    DRV_TRY(new_loop(c, s, depth, &loop, &attributes));
    for (int64_t i = 0; i < items.n; i++) {
        c->scope->names.keys.n = c->scope->names.values.n =
                0; // names of one turn are gone in the next
        DRV_TRY(turn_loop(c, attributes, &items, i));
        DRV_TRY(set_attribute(c, &c->scope->names, "loop", loop));
        DRV_TRY(assign(c, s->target, items.v[i]));
        DRV_TRY(jinja_run(c, &s->body));
        const loop_control control = c->control;
        c->control = RUN_ON;
        if (control == RUN_BREAK) break;
    }
    return DRV_OK;
}

static drv_status run_loop(jinja_context *c, const stmt *s, const value *over, int depth) {
    scope *outer = c->scope, *inner;
    DRV_TRY(open_scope(c, outer, &inner));
    c->scope = inner;
    drv_status status = run_turns(c, s, over, depth);
    c->scope = outer;
    return status;
}

// value is a chain of filters whose innermost has no operand: the text is.
static drv_status filter_text(jinja_context *c, const expr *e, value text, value *out) {
    call_args args;
    value v = text;
    if (e->a) DRV_TRY(filter_text(c, e->a, text, &v));
    DRV_TRY(eval_args(c, e, &args));
    return jinja_filter(c, &e->name, &v, &args, out);
}

static drv_status in_new_scope(jinja_context *c, const stmt_list *body, value *text) {
    scope *outer = c->scope, *inner;
    DRV_TRY(open_scope(c, outer, &inner));
    c->scope = inner;
    drv_status status = text ? caught(c, body, text) : jinja_run(c, body);
    c->scope = outer;
    return status;
}

static drv_status run_macro(jinja_context *c, const stmt *s) {
    value f;
    const char *name = arena_strndup(c->m.a, s->text.s.p, s->text.s.n);
    DRV_TRY(jinja_new_function(c, &(value_function){.name = name, .macro = s, .outer = c->scope},
            &f));
    return value_dict_set(&c->m, &c->scope->names, s->text, f);
}

static drv_status run_call_block(jinja_context *c, const stmt *s) {
    value callee, caller, text;
    call_args args;
    DRV_TRY(jinja_eval(c, s->value->a, &callee));
    DRV_TRY(eval_args(c, s->value, &args));
    DRV_TRY(jinja_defined(&callee));
    if (callee.kind != VALUE_FUNCTION || !callee.function->macro)
        return drv_fail(DRV_E_DATA, "call needs a macro, found %s", value_type_name(&callee));
    DRV_TRY(jinja_new_function(c,
            &(value_function){.name = "caller", .macro = s, .outer = c->scope}, &caller));
    value_function f = *callee.function;
    f.caller = caller;
    DRV_TRY(jinja_new_function(c, &f, &callee));
    DRV_TRY(jinja_call(c, &callee, &args, &text));
    return print(c, &text);
}

static drv_status run_with(jinja_context *c, const stmt *s) {
    scope *outer = c->scope, *inner;
    DRV_TRY(open_scope(c, outer, &inner));
    drv_status status = DRV_OK;
    for (int i = 0; i < s->n_targets && status == DRV_OK;
            i++) { // all values are of the outer scope
        value v;
        status = jinja_eval(c, s->values[i], &v);
        if (status == DRV_OK) status = value_dict_set(&c->m, &inner->names, s->targets[i]->name, v);
    }
    c->scope = inner;
    if (status == DRV_OK) status = jinja_run(c, &s->body);
    c->scope = outer;
    return status;
}

static drv_status run_generation(jinja_context *c, const stmt *s) {
    value text;
    DRV_TRY(in_new_scope(c, &s->body, &text));
    MEM_GROW(c->spans, c->n_spans, c->cap_spans);
    generation_span *span = &c->spans[c->n_spans++];
    span->begin = text_length(c->output->p, c->output->n);
    span->end = span->begin + text_length(text.s.p, text.s.n);
    return print(c, &text);
}

static drv_status run_one(jinja_context *c, const stmt *s) {
    value v, text;
    switch (s->kind) {
    case STMT_TEXT:
        return print(c, &s->text);
    case STMT_PRINT:
        DRV_TRY(jinja_eval(c, s->value, &v));
        return print(c, &v);
    case STMT_IF:
        DRV_TRY(jinja_eval(c, s->value, &v));
        return jinja_run(c, value_true(&v) ? &s->body : &s->otherwise);
    case STMT_FOR:
        DRV_TRY(jinja_eval(c, s->value, &v));
        return run_loop(c, s, &v, 0);
    case STMT_SET:
        DRV_TRY(jinja_eval(c, s->value, &v));
        return assign(c, s->target, v);
    case STMT_SET_BLOCK:
        DRV_TRY(in_new_scope(c, &s->body, &text));
        if (s->value) DRV_TRY(filter_text(c, s->value, text, &text));
        return assign(c, s->target, text);
    case STMT_FILTER:
        DRV_TRY(in_new_scope(c, &s->body, &text));
        DRV_TRY(filter_text(c, s->value, text, &text));
        return print(c, &text);
    case STMT_MACRO:
        return run_macro(c, s);
    case STMT_CALL:
        return run_call_block(c, s);
    case STMT_WITH:
        return run_with(c, s);
    case STMT_GENERATION:
        return run_generation(c, s);
    default:
        c->control = s->kind == STMT_BREAK ? RUN_BREAK : RUN_CONTINUE;
        return DRV_OK;
    }
}

drv_status jinja_run(jinja_context *c, const stmt_list *body) {
    if (++c->depth > JINJA_MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "the template is nested too deeply");
    for (int i = 0; i < body->n && c->control == RUN_ON; i++) {
        DRV_TRY(jinja_charge(c, 1));
        c->line = body->s[i]->line;
        DRV_TRY(run_one(c, body->s[i]));
    }
    c->depth--;
    return DRV_OK;
}
