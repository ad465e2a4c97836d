// Arithmetic and comparison as Python does them, on 64-bit whole numbers and doubles.
#include <math.h>
#include <string.h>

#include "chat/jinja_eval_internal.h"

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

static drv_status whole_arithmetic(char op, int64_t left, int64_t right, value *out) {
    int64_t result = 0;
    bool over = false;
    if ((op == '/' || op == 'f' || op == '%') && right == 0)
        return drv_fail(DRV_E_DATA, "division by zero");
    switch (op) {
    case '+':
        over = __builtin_add_overflow(left, right, &result);
        break;
    case '-':
        over = __builtin_sub_overflow(left, right, &result);
        break;
    case '*':
        over = __builtin_mul_overflow(left, right, &result);
        break;
    case 'f':
    case '%': // Python rounds down: the remainder has the divisor's sign
        over = left == INT64_MIN && right == -1;
        if (over) break;
        result = left / right - (left % right != 0 && (left % right < 0) != (right < 0));
        if (op == '%') result = left - result * right;
        break;
    case 'p':
        if (right < 0) {
            if (left == 0) return drv_fail(DRV_E_DATA, "division by zero");
            *out = value_float(pow((double)left, (double)right));
            return DRV_OK;
        }
        DRV_TRY(whole_power(left, right, &result));
        break;
    default:
        *out = value_float((double)left / (double)right);
        return DRV_OK;
    }
    if (over) return drv_fail(DRV_E_DATA, "a number is beyond 64 bits");
    *out = value_int(result);
    return DRV_OK;
}

static drv_status real_arithmetic(char op, double a, double b, value *out) {
    const bool by_zero = !(b < 0) && !(b > 0) && !isnan(b);
    if ((op == '/' || op == 'f' || op == '%') && by_zero)
        return drv_fail(DRV_E_DATA, "division by zero");
    if (op == 'p' && !(a < 0) && !(a > 0) && b < 0) return drv_fail(DRV_E_DATA, "division by zero");
    if (op == 'p' && a < 0 && isfinite(b) && floor(b) < b)
        return drv_fail(DRV_E_DATA, "a root of a negative number, which is complex");
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
    out->list->form = a->form;
    DRV_TRY(jinja_charge(c, a->n + b->n));
    for (int64_t i = 0; i < a->n + b->n; i++)
        DRV_TRY(value_list_add(&c->m, out->list, i < a->n ? a->v[i] : b->v[i - a->n]));
    return DRV_OK;
}

// Joins two strings; if one of them is safe, escapes the other.
static drv_status join_strings(jinja_context *c, const value *a, const value *b, value *out) {
    void *p;
    const bool safe = a->s.safe || b->s.safe;
    value left = *a, right = *b;
    if (safe) DRV_TRY(jinja_escape(c, a, &left));
    if (safe) DRV_TRY(jinja_escape(c, b, &right));
    a = &left;
    b = &right;
    DRV_TRY(value_alloc(&c->m, a->s.n + b->s.n, &p));
    if (a->s.n) memcpy(p, a->s.p, a->s.n);
    if (b->s.n) memcpy((char *)p + a->s.n, b->s.p, b->s.n);
    *out = value_slice(p, a->s.n + b->s.n);
    out->s.safe = safe;
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
    out->list->form = v->list->form;
    for (int64_t i = 0; i < times && v->list->n; i++) {
        DRV_TRY(jinja_charge(c, v->list->n));
        for (int64_t k = 0; k < v->list->n; k++)
            DRV_TRY(value_list_add(&c->m, out->list, v->list->v[k]));
    }
    return DRV_OK;
}

// Evaluates "%s and %d" % (a, b).
static drv_status format_string(jinja_context *c, const value *format, const value *v, value *out) {
    const call_args all = {v->kind == VALUE_LIST && v->list->form == LIST_TUPLE ? v->list->v : v,
            v->kind == VALUE_LIST && v->list->form == LIST_TUPLE ? (int)v->list->n : 1, NULL, 0};
    return jinja_format_percent(c, format, &all, out);
}

drv_status jinja_eval_binary(jinja_context *c, const expr *node, value *out) {
    value left, right;
    DRV_TRY(jinja_eval(c, node->a, &left));
    DRV_TRY(jinja_eval(c, node->b, &right));
    if (node->op == '~') {
        str text = {0};
        DRV_TRY(jinja_printable(&left));
        DRV_TRY(jinja_printable(&right));
        value_print(&left, &text);
        value_print(&right, &text);
        return jinja_take(c, &text, out);
    }
    DRV_TRY(jinja_defined(&left));
    // A format prints an undefined value as nothing.
    if (node->op == '%' && left.kind == VALUE_STRING) return format_string(c, &left, &right, out);
    DRV_TRY(jinja_defined(&right));
    int64_t x = 0, y = 0;
    const bool whole_left = value_whole(&left, &x), whole_right = value_whole(&right, &y);
    if (whole_left && whole_right) return whole_arithmetic(node->op, x, y, out);
    if (value_is_number(&left) && value_is_number(&right))
        return real_arithmetic(node->op, value_real(&left), value_real(&right), out);
    if (node->op == '+' && left.kind == VALUE_STRING && right.kind == VALUE_STRING)
        return join_strings(c, &left, &right, out);
    if (node->op == '+' && left.kind == VALUE_LIST && right.kind == VALUE_LIST &&
            left.list->form == right.list->form && left.list->form <= LIST_TUPLE)
        return join_lists(c, left.list, right.list, out);
    if (node->op == '*' && (left.kind == VALUE_STRING || left.kind == VALUE_LIST) && whole_right)
        return repeat(c, &left, y, out);
    if (node->op == '*' && (right.kind == VALUE_STRING || right.kind == VALUE_LIST) && whole_left)
        return repeat(c, &right, x, out);
    return no_operator(node->op, &left, &right);
}

drv_status jinja_compare(jinja_context *c, char op, const value *a, const value *b, bool *out) {
    int order;
    if (a->kind == VALUE_STRING) DRV_TRY(jinja_charge(c, (int64_t)a->s.n / 64));
    if (op == '=' || op == '!') {
        *out = value_equal(&c->m, a, b) == (op == '=');
        return DRV_OK;
    }
    if (op == 'i' || op == 'n') {
        DRV_TRY(jinja_contains(c, b, a, out));
        *out = *out == (op == 'i');
        return DRV_OK;
    }
    DRV_TRY(jinja_defined(a));
    DRV_TRY(jinja_defined(b));
    DRV_TRY(value_compare(&c->m, a, b, &order));
    *out = op == '<' ? order < 0 : op == '>' ? order > 0 : op == 'l' ? order <= 0 : order >= 0;
    return DRV_OK;
}

drv_status jinja_eval_compare(jinja_context *c, const expr *e, value *out) {
    value a, b;
    bool holds = true;
    DRV_TRY(jinja_eval(c, e->a, &a));
    for (int i = 0; i < e->n_args && holds; i++) {
        DRV_TRY(jinja_eval(c, e->args[i], &b));
        DRV_TRY(jinja_compare(c, e->ops[i], &a, &b, &holds));
        a = b;
    }
    *out = value_bool(holds);
    return DRV_OK;
}

drv_status jinja_eval_unary(jinja_context *c, const expr *e, value *out) {
    DRV_TRY(jinja_eval(c, e->a, out));
    DRV_TRY(jinja_defined(out));
    if (!value_is_number(out))
        return drv_fail(DRV_E_DATA, "%c%s is not defined", e->op, value_type_name(out));
    if (out->kind == VALUE_BOOL) *out = value_int(out->b);
    if (e->op == '-' && out->kind == VALUE_FLOAT) out->f = -out->f;
    if (e->op == '-' && out->kind == VALUE_INT) return whole_arithmetic('-', 0, out->i, out);
    return DRV_OK;
}
