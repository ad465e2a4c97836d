// Parses expressions. Precedence is that of Jinja 2's own parser (jinja2/parser.py), loose to
// tight: if-else, or, and, not, comparison, + -, ~, * / // %, **, unary, postfix, filters and
// tests.
#include <string.h>

#include "chat/jinja_parse_internal.h"

static drv_status parse_unary(parser *p, bool filters, expr **out);

// --- primary expressions

// Parses (a, b, k=c), from after the parenthesis.
static drv_status parse_arguments(parser *in, expr *call) {
    expr_list args = {0};
    value_list names = {0};
    while (!parser_accept_operator(in, ")")) {
        if (args.n) {
            DRV_TRY(parser_expect_operator(in, ","));
            if (parser_accept_operator(in, ")")) break;
        }
        if (parser_at_operator(in, "*") || parser_at_operator(in, "**"))
            return parser_fail(in, "* and ** in a call are not supported");
        const bool keyword = in->t->kind == TOKEN_NAME && in->t[1].kind == TOKEN_OPERATOR &&
                             in->t[1].n == 1 && *in->t[1].p == '=';
        if (keyword) {
            DRV_TRY(value_list_add(in->m, &names, value_slice(in->t->p, in->t->n)));
            in->t += 2;
        } else if (names.n) {
            return parser_fail(in, "expected a keyword argument after a keyword argument");
        }
        expr *e;
        DRV_TRY(jinja_parse_expr(in, &e));
        DRV_TRY(parser_add_expr(in, &args, e));
    }
    parser_set_args(call, &args);
    call->keywords = names.v;
    call->n_keywords = (int)names.n;
    return DRV_OK;
}

// Parses the items of a list or tuple up to and including `close`.
static drv_status parse_items(parser *p, const char *close, expr_list *items, bool *comma) {
    *comma = false;
    while (!parser_accept_operator(p, close)) {
        if (items->n) {
            DRV_TRY(parser_expect_operator(p, ","));
            *comma = true;
            if (parser_accept_operator(p, close)) break;
        }
        expr *e;
        DRV_TRY(jinja_parse_expr(p, &e));
        DRV_TRY(parser_add_expr(p, items, e));
    }
    return DRV_OK;
}

static drv_status parse_dict(parser *p, expr **out) {
    expr_list items = {0};
    DRV_TRY(parser_new_expr(p, EXPR_DICT, out));
    while (!parser_accept_operator(p, "}")) {
        if (items.n) {
            DRV_TRY(parser_expect_operator(p, ","));
            if (parser_accept_operator(p, "}")) break;
        }
        expr *key, *v;
        DRV_TRY(jinja_parse_expr(p, &key));
        DRV_TRY(parser_expect_operator(p, ":"));
        DRV_TRY(jinja_parse_expr(p, &v));
        DRV_TRY(parser_add_expr(p, &items, key));
        DRV_TRY(parser_add_expr(p, &items, v));
    }
    parser_set_args(*out, &items);
    return DRV_OK;
}

static drv_status parse_strings(parser *p, expr **out) {
    DRV_TRY(parser_new_expr(p, EXPR_CONSTANT, out));
    (*out)->constant = p->t->constant;
    p->t++;
    if (p->t->kind != TOKEN_STRING) return DRV_OK;
    str joined = {0}; // adjacent strings are one
    str_add(&joined, (*out)->constant.s.p, (*out)->constant.s.n);
    for (; p->t->kind == TOKEN_STRING; p->t++)
        str_add(&joined, p->t->constant.s.p, p->t->constant.s.n);
    drv_status status = value_copy_string(p->m, joined.p, joined.n, &(*out)->constant);
    str_free(&joined);
    return status;
}

static drv_status parse_name(parser *p, expr **out) {
    static const struct {
        const char *word;
        value v;
    } constants[] = {{"true", {.kind = VALUE_BOOL, .b = true}},
            {"True", {.kind = VALUE_BOOL, .b = true}}, {"false", {.kind = VALUE_BOOL}},
            {"False", {.kind = VALUE_BOOL}}, {"none", {.kind = VALUE_NONE}},
            {"None", {.kind = VALUE_NONE}}};
    DRV_TRY(parser_new_expr(p, EXPR_NAME, out));
    if (p->macros && (parser_at_word(p, "varargs") || parser_at_word(p, "kwargs")))
        return parser_fail(p, "expected the macro's own parameters");
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (parser_at_word(p, constants[i].word)) {
            (*out)->kind = EXPR_CONSTANT;
            (*out)->constant = constants[i].v;
        }
    return parser_expect_name(p, &(*out)->name);
}

static drv_status parse_primary(parser *in, expr **out) {
    if (in->t->kind == TOKEN_NAME) return parse_name(in, out);
    if (in->t->kind == TOKEN_STRING) return parse_strings(in, out);
    if (in->t->kind == TOKEN_NUMBER) {
        DRV_TRY(parser_new_expr(in, EXPR_CONSTANT, out));
        (*out)->constant = in->t->constant;
        in->t++;
        return DRV_OK;
    }
    const bool tuple = parser_at_operator(in, "(");
    if (tuple || parser_at_operator(in, "[")) {
        expr_list items = {0};
        bool comma;
        DRV_TRY(parser_new_expr(in, EXPR_LIST, out));
        in->t++;
        DRV_TRY(parse_items(in, tuple ? ")" : "]", &items, &comma));
        parser_set_args(*out, &items);
        (*out)->tuple = tuple;
        if (tuple && items.n == 1 && !comma) *out = items.e[0];
        return DRV_OK;
    }
    if (parser_accept_operator(in, "{")) return parse_dict(in, out);
    return parser_fail(in, "expected an expression");
}

// --- what follows an expression

static drv_status constant_none(parser *p, expr **out) {
    DRV_TRY(parser_new_expr(p, EXPR_CONSTANT, out));
    (*out)->constant = value_none();
    return DRV_OK;
}

// Parses a[b] or a[b:c:d], from after the bracket.
static drv_status parse_subscript(parser *in, expr *left, expr **out) {
    expr_list parts = {0};
    bool slice = false;
    DRV_TRY(parser_new_expr(in, EXPR_ITEM, out));
    (*out)->a = left;
    for (;;) {
        expr *e;
        if (parser_at_operator(in, ":") || parser_at_operator(in, "]"))
            DRV_TRY(constant_none(in, &e));
        else
            DRV_TRY(jinja_parse_expr(in, &e));
        if (!slice && parser_at_operator(in, "]") && e->kind == EXPR_CONSTANT &&
                e->constant.kind == VALUE_NONE && !e->name.s.n)
            return parser_fail(in, "expected an index");
        DRV_TRY(parser_add_expr(in, &parts, e));
        if (parts.n == 3 || !parser_accept_operator(in, ":")) break;
        slice = true;
    }
    DRV_TRY(parser_expect_operator(in, "]"));
    if (!slice) {
        (*out)->b = parts.e[0];
        return DRV_OK;
    }
    while (parts.n < 3) {
        expr *e;
        DRV_TRY(constant_none(in, &e));
        DRV_TRY(parser_add_expr(in, &parts, e));
    }
    (*out)->kind = EXPR_SLICE;
    parser_set_args(*out, &parts);
    return DRV_OK;
}

static drv_status parse_call(parser *p, expr *a, expr **out) {
    DRV_TRY(parser_new_expr(p, EXPR_CALL, out));
    (*out)->a = a;
    p->t++;
    return parse_arguments(p, *out);
}

static drv_status parse_postfix(parser *in, expr **inout) {
    for (;;) {
        expr *a = *inout;
        if (parser_accept_operator(in, ".")) {
            if (in->t->kind == TOKEN_NUMBER && in->t->constant.kind == VALUE_INT) { // a.0 is a[0]
                DRV_TRY(parser_new_expr(in, EXPR_ITEM, inout));
                DRV_TRY(parser_new_expr(in, EXPR_CONSTANT, &(*inout)->b));
                (*inout)->b->constant = in->t->constant;
                in->t++;
            } else {
                DRV_TRY(parser_new_expr(in, EXPR_ATTRIBUTE, inout));
                DRV_TRY(parser_expect_name(in, &(*inout)->name));
            }
            (*inout)->a = a;
        } else if (parser_accept_operator(in, "[")) {
            DRV_TRY(parse_subscript(in, a, inout));
        } else if (parser_at_operator(in, "(")) {
            DRV_TRY(parse_call(in, a, inout));
        } else {
            return DRV_OK;
        }
    }
}

// Parses the name of a filter or test of `a`.
static drv_status parse_named(parser *p, expr_kind kind, expr *a, expr **out) {
    DRV_TRY(parser_new_expr(p, kind, out));
    (*out)->a = a;
    return parser_expect_name(p, &(*out)->name);
}

drv_status jinja_parse_filter(parser *p, expr *a, expr **out) {
    DRV_TRY(parse_named(p, EXPR_FILTER, a, out));
    return parser_accept_operator(p, "(") ? parse_arguments(p, *out) : DRV_OK;
}

// Parses a is [not] name, name(args) or name arg, from after "is".
static drv_status parse_test(parser *in, expr **inout) {
    const bool negated = parser_accept_word(in, "not");
    expr *test;
    DRV_TRY(parse_named(in, EXPR_TEST, *inout, &test));
    const token_kind kind = in->t->kind;
    const bool value_follows = kind == TOKEN_NAME || kind == TOKEN_STRING || kind == TOKEN_NUMBER ||
                               parser_at_operator(in, "[") || parser_at_operator(in, "{");
    if (parser_accept_operator(in, "(")) {
        DRV_TRY(parse_arguments(in, test));
    } else if (value_follows && !parser_at_word(in, "else") && !parser_at_word(in, "or") &&
               !parser_at_word(in, "and") && !parser_at_word(in, "is")) {
        expr_list args = {0};
        expr *arg;
        DRV_TRY(parse_primary(in, &arg));
        DRV_TRY(parse_postfix(in, &arg));
        DRV_TRY(parser_add_expr(in, &args, arg));
        parser_set_args(test, &args);
    }
    *inout = test;
    if (!negated) return DRV_OK;
    DRV_TRY(parser_new_expr(in, EXPR_NOT, inout));
    (*inout)->a = test;
    return DRV_OK;
}

static drv_status parse_filters(parser *p, expr **inout) {
    for (;;) {
        if (parser_accept_operator(p, "|"))
            DRV_TRY(jinja_parse_filter(p, *inout, inout));
        else if (parser_accept_word(p, "is")) {
            DRV_TRY(parse_test(p, inout));
            if (parser_at_word(p, "is")) return parser_fail(p, "a test follows a test");
        } else if (parser_at_operator(p, "("))
            DRV_TRY(parse_call(p, *inout, inout));
        else
            return DRV_OK;
    }
}

// --- operators

static drv_status parse_unary(parser *p, bool filters, expr **out) {
    DRV_TRY(parser_go_deeper(p));
    if (parser_at_operator(p, "-") || parser_at_operator(p, "+")) {
        DRV_TRY(parser_new_expr(p, EXPR_UNARY, out));
        (*out)->op = *p->t->p;
        p->t++;
        DRV_TRY(parse_unary(p, false, &(*out)->a));
    } else {
        DRV_TRY(parse_primary(p, out));
    }
    DRV_TRY(parse_postfix(p, out));
    if (filters) DRV_TRY(parse_filters(p, out));
    p->depth--;
    return DRV_OK;
}

typedef struct binary_level {
    struct {
        const char *text;
        char op;
    } operators[4];
} binary_level;

// From loose to tight; unary operators are tighter than all of them.
static const binary_level binary_levels[] = {{{{"+", '+'}, {"-", '-'}}}, {{{"~", '~'}}},
        {{{"*", '*'}, {"/", '/'}, {"//", 'f'}, {"%", '%'}}}, {{{"**", 'p'}}}};
enum { N_LEVELS = sizeof binary_levels / sizeof *binary_levels };

static char accept_binary(parser *p, const binary_level *level) {
    for (int i = 0; i < 4 && level->operators[i].text; i++)
        if (parser_accept_operator(p, level->operators[i].text)) return level->operators[i].op;
    return 0;
}

static drv_status parse_binary(parser *p, int level, expr **out) {
    if (level == N_LEVELS) return parse_unary(p, true, out);
    DRV_TRY(parse_binary(p, level + 1, out));
    for (char op; (op = accept_binary(p, &binary_levels[level]));) {
        expr *e;
        DRV_TRY(parser_new_expr(p, EXPR_BINARY, &e));
        e->op = op;
        e->a = *out;
        DRV_TRY(parse_binary(p, level + 1, &e->b));
        *out = e;
    }
    return DRV_OK;
}

static char accept_comparison(parser *p) {
    static const struct {
        const char *text;
        char op;
    } operators[] = {{"==", '='}, {"!=", '!'}, {"<", '<'}, {">", '>'}, {"<=", 'l'}, {">=", 'g'}};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (parser_accept_operator(p, operators[i].text)) return operators[i].op;
    if (parser_accept_word(p, "in")) return 'i';
    if (parser_at_word(p, "not") && p->t[1].kind == TOKEN_NAME && p->t[1].n == 2 &&
            memcmp(p->t[1].p, "in", 2) == 0) {
        p->t += 2;
        return 'n';
    }
    return 0;
}

static drv_status parse_comparison(parser *in, expr **out) {
    expr_list others = {0};
    str ops = {0};
    DRV_TRY(parse_binary(in, 0, out));
    drv_status status = DRV_OK;
    for (char op; status == DRV_OK && (op = accept_comparison(in));) {
        expr *e = NULL;
        str_add(&ops, &op, 1);
        status = parse_binary(in, 0, &e);
        if (status == DRV_OK) status = parser_add_expr(in, &others, e);
    }
    if (status == DRV_OK && others.n) {
        expr *e;
        value kept;
        status = parser_new_expr(in, EXPR_COMPARE, &e);
        if (status == DRV_OK) status = value_copy_string(in->m, ops.p, ops.n, &kept);
        if (status == DRV_OK) {
            e->a = *out;
            e->ops = (char *)(uintptr_t)kept.s.p;
            parser_set_args(e, &others);
            *out = e;
        }
    }
    str_free(&ops);
    return status;
}

static drv_status parse_not(parser *p, expr **out) {
    if (!parser_accept_word(p, "not")) return parse_comparison(p, out);
    DRV_TRY(parser_go_deeper(p));
    DRV_TRY(parser_new_expr(p, EXPR_NOT, out));
    DRV_TRY(parse_not(p, &(*out)->a));
    p->depth--;
    return DRV_OK;
}

// Operands that `word` is between, from the left.
static drv_status parse_joined(parser *p, const char *word, expr_kind kind,
        drv_status (*operand)(parser *p, expr **out), expr **out) {
    DRV_TRY(operand(p, out));
    while (parser_accept_word(p, word)) {
        expr *e;
        DRV_TRY(parser_new_expr(p, kind, &e));
        e->a = *out;
        DRV_TRY(operand(p, &e->b));
        *out = e;
    }
    return DRV_OK;
}

static drv_status parse_and(parser *p, expr **out) {
    return parse_joined(p, "and", EXPR_AND, parse_not, out);
}

static drv_status parse_or(parser *p, expr **out) {
    return parse_joined(p, "or", EXPR_OR, parse_and, out);
}

drv_status jinja_parse_expr(parser *p, expr **out) {
    DRV_TRY(parser_go_deeper(p));
    DRV_TRY(parse_or(p, out));
    while (parser_accept_word(p, "if")) {
        expr *e;
        DRV_TRY(parser_new_expr(p, EXPR_IF, &e));
        e->b = *out;
        DRV_TRY(parse_or(p, &e->a));
        if (parser_accept_word(p, "else")) DRV_TRY(jinja_parse_expr(p, &e->c));
        *out = e;
    }
    p->depth--;
    return DRV_OK;
}

// Parses an expression, or a tuple a, b, c without parentheses.
drv_status jinja_parse_tuple(parser *p, bool conditional, expr **out) {
    expr_list items = {0};
    expr *e;
    DRV_TRY(conditional ? jinja_parse_expr(p, &e) : parse_or(p, &e));
    if (!parser_at_operator(p, ",")) {
        *out = e;
        return DRV_OK;
    }
    DRV_TRY(parser_new_expr(p, EXPR_LIST, out));
    (*out)->tuple = true;
    DRV_TRY(parser_add_expr(p, &items, e));
    while (parser_accept_operator(p, ",")) {
        if (p->t->kind == TOKEN_BLOCK_END || p->t->kind == TOKEN_PRINT_END ||
                parser_at_operator(p, "="))
            break;
        DRV_TRY(conditional ? jinja_parse_expr(p, &e) : parse_or(p, &e));
        DRV_TRY(parser_add_expr(p, &items, e));
    }
    parser_set_args(*out, &items);
    return DRV_OK;
}
