// Runs the statements of a template in order, with the scopes of its names.

#include "chat/jinja_eval_internal.h"

static drv_status print(jinja_context *c, const value *v) {
    DRV_TRY(jinja_printable(v));
    value_print(v, c->out);
    if (c->out->n > JINJA_MAX_OUTPUT)
        return drv_fail(DRV_E_DATA, "the template writes more than %s",
                str_bytes(JINJA_MAX_OUTPUT));
    return DRV_OK;
}

// Applies a chain of filters to a text, which is the operand of the innermost.
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

static drv_status run_generation(jinja_context *c, const stmt *s) {
    value text;
    DRV_TRY(in_new_scope(c, &s->body, &text));
    MEM_GROW(c->spans, c->n_spans, c->cap_spans);
    generation_span *span = &c->spans[c->n_spans++];
    span->begin = text_length(c->output->p, c->output->n);
    span->end = span->begin + text_length(text.s.p, text.s.n);
    return print(c, &text);
}

static drv_status run_one(jinja_context *c, const stmt *node) {
    value shown, text;
    switch (node->kind) {
    case STMT_TEXT:
        return print(c, &node->text);
    case STMT_PRINT:
        DRV_TRY(jinja_eval(c, node->value, &shown));
        return print(c, &shown);
    case STMT_IF:
        DRV_TRY(jinja_eval(c, node->value, &shown));
        return jinja_run(c, value_true(&shown) ? &node->body : &node->otherwise);
    case STMT_FOR:
        DRV_TRY(jinja_eval(c, node->value, &shown));
        return jinja_run_loop(c, node, &shown);
    case STMT_SET:
        DRV_TRY(jinja_eval(c, node->value, &shown));
        return jinja_assign(c, node->target, shown);
    case STMT_SET_BLOCK:
        DRV_TRY(in_new_scope(c, &node->body, &text));
        if (node->value) DRV_TRY(filter_text(c, node->value, text, &text));
        return jinja_assign(c, node->target, text);
    case STMT_FILTER:
        DRV_TRY(in_new_scope(c, &node->body, &text));
        DRV_TRY(filter_text(c, node->value, text, &text));
        return print(c, &text);
    case STMT_MACRO:
        return run_macro(c, node);
    case STMT_GENERATION:
        return run_generation(c, node);
    default:
        c->control = node->kind == STMT_BREAK ? RUN_BREAK : RUN_CONTINUE;
        return DRV_OK;
    }
}

drv_status jinja_run(jinja_context *c, const stmt_list *body) {
    if (++c->depth > JINJA_MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "the template is nested too deeply");
    for (int i = 0; i < body->n && c->control == RUN_ON; i++) {
        DRV_TRY(jinja_charge(c, 1));
        c->position = body->s[i]->position;
        const drv_status status = run_one(c, body->s[i]);
        if (status != DRV_OK && !c->failed) c->position = body->s[i]->position;
        c->failed = status != DRV_OK;
        if (status != DRV_OK) return status;
    }
    c->depth--;
    return DRV_OK;
}
