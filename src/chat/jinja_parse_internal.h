// Shared by the two halves of the parser: expressions in jinja_parse_expr.c, and statements in
// jinja_parse.c.
#pragma once
#include "chat/jinja_parse.h"

typedef struct parser {
    value_memory *m;
    const char *name;
    const token *t;
    int depth, loops, macros; // levels, loops and macros that enclose the token t
    bool marks;               // there was a {% generation %} block
} parser;

typedef struct expr_list { // grows while it is parsed
    expr **e;
    int n, cap;
} expr_list;

// Fails with the line, what was expected and what was found.
drv_status parser_fail(const parser *p, const char *what);
bool parser_at_word(const parser *p, const char *text);
bool parser_at_operator(const parser *p, const char *text);
bool parser_accept_word(parser *p, const char *text); // steps over the word if it comes next
bool parser_accept_operator(parser *p, const char *text);
DRV_CHECKED drv_status parser_expect_operator(parser *p, const char *text);
DRV_CHECKED drv_status parser_expect_name(parser *p, value *out);
DRV_CHECKED drv_status parser_new_expr(parser *p, expr_kind kind, expr **out);
DRV_CHECKED drv_status parser_add_expr(parser *p, expr_list *l, expr *e);
void parser_set_args(expr *e, const expr_list *l);
// Increments p->depth, which the caller decrements. DRV_E_DATA: too deep for the stack.
DRV_CHECKED drv_status parser_go_deeper(parser *p);

DRV_CHECKED drv_status jinja_parse_expr(parser *p, expr **out);
// Parses an expression, or a tuple a, b, c; `conditional`: with items like "x if y else z".
DRV_CHECKED drv_status jinja_parse_tuple(parser *p, bool conditional, expr **out);
// Parses name(args) as a filter of a (NULL: of the text of a block).
DRV_CHECKED drv_status jinja_parse_filter(parser *p, expr *a, expr **out);
