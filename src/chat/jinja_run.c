// Statements: what a template does, in order, with the scopes of its names.
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_eval_internal.h"

static drv_status print(jinja_context *c, const value *v) {
    if (v->kind == VALUE_GENERATOR)
        return drv_fail(DRV_E_DATA,
                "a generator is printed, which is an address; |list makes a list of it");
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
    *out = value_bool(!last || !value_equal(&c->m, last, &now));
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
        DRV_TRY(jinja_assign(c, s->target, all.v[i]));
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
        DRV_TRY(jinja_assign(c, s->target, items.v[i]));
        DRV_TRY(jinja_run(c, &s->body));
        const loop_control control = c->control;
        c->control = RUN_ON;
        if (control == RUN_BREAK) break;
    }
    return DRV_OK;
}

static drv_status run_loop(jinja_context *c, const stmt *s, const value *over, int depth) {
    scope *outer = c->scope, *inner;
    DRV_TRY(jinja_open_scope(c, outer, &inner));
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
    DRV_TRY(jinja_eval_args(c, e, &args));
    return jinja_filter(c, &e->name, &v, &args, out);
}

static drv_status in_new_scope(jinja_context *c, const stmt_list *body, value *text) {
    scope *outer = c->scope, *inner;
    DRV_TRY(jinja_open_scope(c, outer, &inner));
    c->scope = inner;
    drv_status status = text ? jinja_caught(c, body, text) : jinja_run(c, body);
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
    DRV_TRY(jinja_eval_args(c, s->value, &args));
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
    DRV_TRY(jinja_open_scope(c, outer, &inner));
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

static drv_status run_one(jinja_context *context, const stmt *node) {
    value shown, text;
    switch (node->kind) {
    case STMT_TEXT:
        return print(context, &node->text);
    case STMT_PRINT:
        DRV_TRY(jinja_eval(context, node->value, &shown));
        return print(context, &shown);
    case STMT_IF:
        DRV_TRY(jinja_eval(context, node->value, &shown));
        return jinja_run(context, value_true(&shown) ? &node->body : &node->otherwise);
    case STMT_FOR:
        DRV_TRY(jinja_eval(context, node->value, &shown));
        return run_loop(context, node, &shown, 0);
    case STMT_SET:
        DRV_TRY(jinja_eval(context, node->value, &shown));
        return jinja_assign(context, node->target, shown);
    case STMT_SET_BLOCK:
        DRV_TRY(in_new_scope(context, &node->body, &text));
        if (node->value) DRV_TRY(filter_text(context, node->value, text, &text));
        return jinja_assign(context, node->target, text);
    case STMT_FILTER:
        DRV_TRY(in_new_scope(context, &node->body, &text));
        DRV_TRY(filter_text(context, node->value, text, &text));
        return print(context, &text);
    case STMT_MACRO:
        return run_macro(context, node);
    case STMT_CALL:
        return run_call_block(context, node);
    case STMT_WITH:
        return run_with(context, node);
    case STMT_GENERATION:
        return run_generation(context, node);
    default:
        context->control = node->kind == STMT_BREAK ? RUN_BREAK : RUN_CONTINUE;
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
