// Runs the tree of a template. Semantics are those of Jinja 2 in transformers' sandbox; time,
// memory and output are bounded.
#include <string.h>

#include "chat/jinja_eval_internal.h"

drv_status jinja_charge(jinja_context *c, int64_t steps) {
    c->m.steps += steps;
    if (c->m.steps > c->m.max_steps) return drv_fail(DRV_E_DATA, "the template runs too long");
    return DRV_OK;
}

drv_status jinja_defined(const value *v) {
    if (v->kind != VALUE_UNDEFINED) return DRV_OK;
    return drv_fail(DRV_E_DATA, "\"%.*s\" is undefined", (int)(v->s.n < 80 ? v->s.n : 80),
            v->s.n ? v->s.p : "");
}

drv_status jinja_take(jinja_context *c, str *text, value *out) {
    drv_status status =
            text->n > JINJA_MAX_OUTPUT
                    ? drv_fail(DRV_E_DATA, "a text of more than %s", str_bytes(JINJA_MAX_OUTPUT))
                    : value_copy_string(&c->m, text->p, text->n, out);
    str_free(text);
    return status;
}

drv_status jinja_printable(const value *v) {
    if (v->kind != VALUE_GENERATOR && v->kind != VALUE_FUNCTION) return DRV_OK;
    return drv_fail(DRV_E_DATA, "a %s is printed%s", value_type_name(v),
            v->kind == VALUE_FUNCTION ? "; does it want its ()?" : "; |list makes a list of it");
}

drv_status jinja_new_function(jinja_context *c, const value_function *f, value *out) {
    void *p;
    DRV_TRY(value_alloc(&c->m, sizeof *f, &p));
    memcpy(p, f, sizeof *f);
    *out = (value){.kind = VALUE_FUNCTION, .function = p};
    return DRV_OK;
}

// --- names

drv_status jinja_open_scope(jinja_context *c, scope *outer, scope **out) {
    void *p;
    DRV_TRY(value_alloc(&c->m, sizeof(scope), &p));
    *out = p;
    (*out)->outer = outer;
    return DRV_OK;
}

static value look_up(jinja_context *c, const value *name) {
    for (const scope *s = c->scope; s; s = s->outer) {
        c->m.steps += s->names.keys.n / 32;
        const value *v = value_dict_get(&s->names, name);
        if (v) return *v;
    }
    return value_undefined(name->s.p, name->s.n);
}

drv_status jinja_assign(jinja_context *c, const expr *target, value v) {
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
        DRV_TRY(jinja_assign(c, target->args[i], items.v[i]));
    return DRV_OK;
}

// --- calls

drv_status jinja_eval_args(jinja_context *c, const expr *e, call_args *out) {
    void *p = NULL;
    if (e->n_args) DRV_TRY(value_alloc(&c->m, sizeof(value) * (size_t)e->n_args, &p));
    value *v = p;
    for (int i = 0; i < e->n_args; i++)
        DRV_TRY(jinja_eval(c, e->args[i], &v[i]));
    *out = (call_args){v, e->n_args, e->keywords, e->n_keywords};
    return DRV_OK;
}

// Runs a body and captures its text in *out.
drv_status jinja_caught(jinja_context *c, const stmt_list *body, value *out) {
    str text = {0}, *outer = c->out;
    c->out = &text;
    drv_status status = jinja_run(c, body);
    c->out = outer;
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

static drv_status check_macro_args(const value_function *self, const call_args *args) {
    const macro_parameters *parameters = &self->macro->parameters;
    const int n_positional = args->n - args->n_keywords;
    if (n_positional > parameters->n)
        return drv_fail(DRV_E_DATA, "macro %s takes at most %d arguments, found %d", self->name,
                parameters->n, n_positional);
    for (int k = 0; k < args->n_keywords; k++) {
        bool known = false;
        for (int i = 0; i < parameters->n && !known; i++)
            known = value_equal(NULL, &parameters->names[i], &args->keywords[k]);
        if (!known)
            return drv_fail(DRV_E_DATA, "macro %s has no parameter \"%.*s\"", self->name,
                    (int)args->keywords[k].s.n, args->keywords[k].s.p);
    }
    return DRV_OK;
}

static drv_status bind_parameters(jinja_context *c, const value_function *self,
        const call_args *args) {
    const macro_parameters *parameters = &self->macro->parameters;
    DRV_TRY(check_macro_args(self, args));
    for (int i = 0; i < parameters->n; i++) {
        const value *name = &parameters->names[i], *given = call_named(args, i, name);
        value v = given ? *given : value_undefined(name->s.p, name->s.n);
        if (!given && parameters->defaults[i]) DRV_TRY(jinja_eval(c, parameters->defaults[i], &v));
        DRV_TRY(value_dict_set(&c->m, &c->scope->names, *name, v));
    }
    return DRV_OK;
}

static drv_status call_macro(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    scope *outer = c->scope, *inner;
    DRV_TRY(jinja_open_scope(c, f->outer, &inner));
    c->scope = inner;
    drv_status status = bind_parameters(c, f, args);
    if (status == DRV_OK) status = jinja_caught(c, &f->macro->body, out);
    c->scope = outer;
    return status;
}

drv_status jinja_call(jinja_context *c, const value *callee, const call_args *args, value *out) {
    DRV_TRY(jinja_defined(callee));
    if (callee->kind != VALUE_FUNCTION || (!callee->function->macro && !callee->function->native))
        return drv_fail(DRV_E_DATA, "%s cannot be called", value_type_name(callee));
    DRV_TRY(jinja_charge(c, 1 + jinja_text_steps(&callee->function->self)));
    if (++c->depth > JINJA_MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "the template calls itself too deeply");
    const value_function *f = callee->function;
    drv_status status = f->macro ? call_macro(c, f, args, out) : f->native(c, f, args, out);
    c->depth--;
    const value *self = &f->self; // methods of a safe text return safe texts
    if (status == DRV_OK && f->native && self->kind == VALUE_STRING && out->kind == VALUE_STRING)
        out->s.safe = self->s.safe;
    return status;
}

// --- expressions

static drv_status eval_list(jinja_context *c, const expr *e, value *out) {
    DRV_TRY(value_new_list(&c->m, out));
    out->list->form = e->tuple ? LIST_TUPLE : LIST_PLAIN;
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
    DRV_TRY(jinja_eval_args(c, e, &args));
    if (e->kind == EXPR_FILTER) return jinja_filter(c, &e->name, &v, &args, out);
    DRV_TRY(jinja_test(c, &e->name, &v, &args, &holds));
    *out = value_bool(holds);
    return DRV_OK;
}

static drv_status eval_kind(jinja_context *c, const expr *node, value *out) {
    value left, right;
    call_args args;
    switch (node->kind) {
    case EXPR_CONSTANT:
        *out = node->constant;
        return DRV_OK;
    case EXPR_NAME:
        *out = look_up(c, &node->name);
        return DRV_OK;
    case EXPR_LIST:
        return eval_list(c, node, out);
    case EXPR_DICT:
        return eval_dict(c, node, out);
    case EXPR_ATTRIBUTE:
        DRV_TRY(jinja_eval(c, node->a, &left));
        return jinja_attribute(c, &left, &node->name, out);
    case EXPR_ITEM:
        DRV_TRY(jinja_eval(c, node->a, &left));
        DRV_TRY(jinja_eval(c, node->b, &right));
        return jinja_item(c, &left, &right, out);
    case EXPR_SLICE:
        return jinja_eval_slice(c, node, out);
    case EXPR_CALL:
        DRV_TRY(jinja_eval(c, node->a, &left));
        DRV_TRY(jinja_eval_args(c, node, &args));
        return jinja_call(c, &left, &args, out);
    case EXPR_FILTER:
    case EXPR_TEST:
        return eval_named(c, node, out);
    case EXPR_UNARY:
        return jinja_eval_unary(c, node, out);
    case EXPR_BINARY:
        return jinja_eval_binary(c, node, out);
    case EXPR_COMPARE:
        return jinja_eval_compare(c, node, out);
    default:
        return eval_logic(c, node, out);
    }
}

drv_status jinja_eval(jinja_context *c, const expr *e, value *out) {
    DRV_TRY(jinja_charge(c, 1));
    if (++c->depth > JINJA_MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "an expression is nested too deeply");
    const drv_status status = eval_kind(c, e, out);
    if (status != DRV_OK && !c->failed) c->position = e->position;
    c->failed = status != DRV_OK;
    c->depth--;
    return status;
}
