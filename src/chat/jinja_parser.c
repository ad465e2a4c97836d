// Functions that both halves of the parser share: they look at tokens, accept them, fail with their
// line, and make the nodes of the tree.
#include <string.h>

#include "chat/jinja_parse_internal.h"

enum { MAX_NESTING = 120 }; // of expressions and statements: the stack is bounded

drv_status parser_fail(const parser *p, const char *what) {
    const token *t = p->t;
    if (t->kind == TOKEN_END)
        return drv_fail(DRV_E_DATA, "%s:%d:%d: %s, found the end of the template", p->name,
                t->position.line, t->position.column, what);
    return drv_fail(DRV_E_DATA, "%s:%d:%d: %s, found \"%.*s\"", p->name, t->position.line,
            t->position.column, what, (int)(t->n < 40 ? t->n : 40), t->p);
}

static bool is(const parser *p, token_kind kind, const char *text) {
    return p->t->kind == kind && p->t->n == strlen(text) && memcmp(p->t->p, text, p->t->n) == 0;
}
bool parser_at_operator(const parser *p, const char *text) {
    return is(p, TOKEN_OPERATOR, text);
}
bool parser_at_word(const parser *p, const char *text) {
    return is(p, TOKEN_NAME, text);
}
bool parser_accept_operator(parser *p, const char *text) {
    const bool yes = parser_at_operator(p, text);
    p->t += yes;
    return yes;
}
bool parser_accept_word(parser *p, const char *text) {
    const bool yes = parser_at_word(p, text);
    p->t += yes;
    return yes;
}
drv_status parser_expect_operator(parser *p, const char *text) {
    if (parser_accept_operator(p, text)) return DRV_OK;
    char what[32];
    snprintf(what, sizeof what, "expected \"%s\"", text);
    return parser_fail(p, what);
}
drv_status parser_expect_name(parser *p, value *out) {
    if (p->t->kind != TOKEN_NAME) return parser_fail(p, "expected a name");
    *out = value_slice(p->t->p, p->t->n);
    p->t++;
    return DRV_OK;
}
drv_status parser_new_expr(parser *p, expr_kind kind, expr **out) {
    void *e;
    DRV_TRY(value_alloc(p->m, sizeof(expr), &e));
    *out = e;
    (*out)->kind = kind;
    (*out)->position = p->t->position;
    return DRV_OK;
}

drv_status parser_add_expr(parser *p, expr_list *l, expr *e) {
    if (l->n == l->cap) {
        void *bigger;
        l->cap = l->cap ? 2 * l->cap : 4;
        DRV_TRY(value_alloc(p->m, sizeof *l->e * (size_t)l->cap, &bigger));
        if (l->n) memcpy(bigger, l->e, sizeof *l->e * (size_t)l->n);
        l->e = bigger;
    }
    l->e[l->n++] = e;
    return DRV_OK;
}

void parser_set_args(expr *e, const expr_list *l) {
    e->args = l->e;
    e->n_args = l->n;
}

drv_status parser_go_deeper(parser *p) {
    if (++p->depth > MAX_NESTING) return parser_fail(p, "nested too deeply");
    return DRV_OK;
}
