// Recursive descent over the tokens of a template, by the precedence of Jinja 2's own parser
// (jinja2/parser.py): if-else, or, and, not, comparison, + -, ~, * / // %, unary, **, postfix,
// filters and tests.
#include "chat/jinja_parse.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 120 }; // of expressions and statements: the stack has bounds

typedef struct parser {
    value_memory *m;
    const char *name;
    const token *t;
    int depth, loops;
} parser;

typedef struct expr_list { // grows while it is parsed
    expr **e;
    int n, cap;
} expr_list;

static drv_status parse_expr(parser *p, expr **out);
static drv_status parse_unary(parser *p, bool filters, expr **out);
static drv_status parse_body(parser *p, const char *const *ends, stmt_list *out);

static drv_status fail_here(const parser *p, const char *what) {
    const token *t = p->t;
    if (t->kind == TOKEN_END)
        return drv_fail(DRV_E_DATA, "%s:%d: %s, found the end of the template", p->name, t->line,
                what);
    return drv_fail(DRV_E_DATA, "%s:%d: %s, found \"%.*s\"", p->name, t->line, what,
            (int)(t->n < 40 ? t->n : 40), t->p);
}

static bool is(const parser *p, token_kind kind, const char *text) {
    return p->t->kind == kind && p->t->n == strlen(text) && memcmp(p->t->p, text, p->t->n) == 0;
}
static bool is_operator(const parser *p, const char *text) {
    return is(p, TOKEN_OPERATOR, text);
}
static bool is_word(const parser *p, const char *text) {
    return is(p, TOKEN_NAME, text);
}
static bool accept_operator(parser *p, const char *text) {
    const bool yes = is_operator(p, text);
    p->t += yes;
    return yes;
}
static bool accept_word(parser *p, const char *text) {
    const bool yes = is_word(p, text);
    p->t += yes;
    return yes;
}
static drv_status expect_operator(parser *p, const char *text) {
    if (accept_operator(p, text)) return DRV_OK;
    char what[32];
    snprintf(what, sizeof what, "expected \"%s\"", text);
    return fail_here(p, what);
}
static drv_status expect_name(parser *p, value *out) {
    if (p->t->kind != TOKEN_NAME) return fail_here(p, "expected a name");
    *out = value_slice(p->t->p, p->t->n);
    p->t++;
    return DRV_OK;
}
static drv_status end_of_block(parser *p) {
    if (p->t->kind != TOKEN_BLOCK_END) return fail_here(p, "expected the end of the tag");
    p->t++;
    return DRV_OK;
}

static drv_status new_expr(parser *p, expr_kind kind, expr **out) {
    void *e;
    DRV_TRY(value_alloc(p->m, sizeof(expr), &e));
    *out = e;
    (*out)->kind = kind;
    (*out)->line = p->t->line;
    return DRV_OK;
}

static drv_status add_expr(parser *p, expr_list *l, expr *e) {
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

static void set_args(expr *e, const expr_list *l) {
    e->args = l->e;
    e->n_args = l->n;
}

static drv_status deeper(parser *p) {
    if (++p->depth > MAX_NESTING) return fail_here(p, "nested too deeply");
    return DRV_OK;
}

// --- primary expressions

// (a, b, k=c): the parenthesis is open.
static drv_status parse_arguments(parser *p, expr *call) {
    expr_list args = {0};
    value_list names = {0};
    while (!accept_operator(p, ")")) {
        if (args.n) {
            DRV_TRY(expect_operator(p, ","));
            if (accept_operator(p, ")")) break;
        }
        if (is_operator(p, "*") || is_operator(p, "**"))
            return fail_here(p, "* and ** in a call are not supported");
        const bool keyword = p->t->kind == TOKEN_NAME && p->t[1].kind == TOKEN_OPERATOR &&
                             p->t[1].n == 1 && *p->t[1].p == '=';
        if (keyword) {
            DRV_TRY(value_list_add(p->m, &names, value_slice(p->t->p, p->t->n)));
            p->t += 2;
        } else if (names.n) {
            return fail_here(p, "expected a keyword argument behind a keyword argument");
        }
        expr *e;
        DRV_TRY(parse_expr(p, &e));
        DRV_TRY(add_expr(p, &args, e));
    }
    set_args(call, &args);
    call->keywords = names.v;
    call->n_keywords = (int)names.n;
    return DRV_OK;
}

// The items of a list or tuple up to `close`, which is taken.
static drv_status parse_items(parser *p, const char *close, expr_list *items, bool *comma) {
    *comma = false;
    while (!accept_operator(p, close)) {
        if (items->n) {
            DRV_TRY(expect_operator(p, ","));
            *comma = true;
            if (accept_operator(p, close)) break;
        }
        expr *e;
        DRV_TRY(parse_expr(p, &e));
        DRV_TRY(add_expr(p, items, e));
    }
    return DRV_OK;
}

static drv_status parse_dict(parser *p, expr **out) {
    expr_list items = {0};
    DRV_TRY(new_expr(p, EXPR_DICT, out));
    while (!accept_operator(p, "}")) {
        if (items.n) {
            DRV_TRY(expect_operator(p, ","));
            if (accept_operator(p, "}")) break;
        }
        expr *key, *v;
        DRV_TRY(parse_expr(p, &key));
        DRV_TRY(expect_operator(p, ":"));
        DRV_TRY(parse_expr(p, &v));
        DRV_TRY(add_expr(p, &items, key));
        DRV_TRY(add_expr(p, &items, v));
    }
    set_args(*out, &items);
    return DRV_OK;
}

static drv_status parse_strings(parser *p, expr **out) {
    DRV_TRY(new_expr(p, EXPR_CONSTANT, out));
    (*out)->constant = p->t->constant;
    p->t++;
    if (p->t->kind != TOKEN_STRING) return DRV_OK;
    str joined = {0}; // neighbours are one string
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
    DRV_TRY(new_expr(p, EXPR_NAME, out));
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (is_word(p, constants[i].word)) {
            (*out)->kind = EXPR_CONSTANT;
            (*out)->constant = constants[i].v;
        }
    return expect_name(p, &(*out)->name);
}

static drv_status parse_primary(parser *p, expr **out) {
    if (p->t->kind == TOKEN_NAME) return parse_name(p, out);
    if (p->t->kind == TOKEN_STRING) return parse_strings(p, out);
    if (p->t->kind == TOKEN_NUMBER) {
        DRV_TRY(new_expr(p, EXPR_CONSTANT, out));
        (*out)->constant = p->t->constant;
        p->t++;
        return DRV_OK;
    }
    const bool tuple = is_operator(p, "(");
    if (tuple || is_operator(p, "[")) {
        expr_list items = {0};
        bool comma;
        DRV_TRY(new_expr(p, EXPR_LIST, out));
        p->t++;
        DRV_TRY(parse_items(p, tuple ? ")" : "]", &items, &comma));
        set_args(*out, &items);
        (*out)->tuple = tuple;
        if (tuple && items.n == 1 && !comma) *out = items.e[0];
        return DRV_OK;
    }
    if (accept_operator(p, "{")) return parse_dict(p, out);
    return fail_here(p, "expected an expression");
}

// --- what follows an expression

static drv_status constant_none(parser *p, expr **out) {
    DRV_TRY(new_expr(p, EXPR_CONSTANT, out));
    (*out)->constant = value_none();
    return DRV_OK;
}

// a[b] or a[b:c:d]: the bracket is open.
static drv_status parse_subscript(parser *p, expr *a, expr **out) {
    expr_list parts = {0};
    bool slice = false;
    DRV_TRY(new_expr(p, EXPR_ITEM, out));
    (*out)->a = a;
    for (;;) {
        expr *e;
        if (is_operator(p, ":") || is_operator(p, "]"))
            DRV_TRY(constant_none(p, &e));
        else
            DRV_TRY(parse_expr(p, &e));
        if (!slice && is_operator(p, "]") && e->kind == EXPR_CONSTANT &&
                e->constant.kind == VALUE_NONE && !e->name.s.n)
            return fail_here(p, "expected an index");
        DRV_TRY(add_expr(p, &parts, e));
        if (parts.n == 3 || !accept_operator(p, ":")) break;
        slice = true;
    }
    DRV_TRY(expect_operator(p, "]"));
    if (!slice) {
        (*out)->b = parts.e[0];
        return DRV_OK;
    }
    while (parts.n < 3) {
        expr *e;
        DRV_TRY(constant_none(p, &e));
        DRV_TRY(add_expr(p, &parts, e));
    }
    (*out)->kind = EXPR_SLICE;
    set_args(*out, &parts);
    return DRV_OK;
}

static drv_status parse_call(parser *p, expr *a, expr **out) {
    DRV_TRY(new_expr(p, EXPR_CALL, out));
    (*out)->a = a;
    p->t++;
    return parse_arguments(p, *out);
}

static drv_status parse_postfix(parser *p, expr **inout) {
    for (;;) {
        expr *a = *inout;
        if (accept_operator(p, ".")) {
            if (p->t->kind == TOKEN_NUMBER && p->t->constant.kind == VALUE_INT) { // a.0 is a[0]
                DRV_TRY(new_expr(p, EXPR_ITEM, inout));
                DRV_TRY(new_expr(p, EXPR_CONSTANT, &(*inout)->b));
                (*inout)->b->constant = p->t->constant;
                p->t++;
            } else {
                DRV_TRY(new_expr(p, EXPR_ATTRIBUTE, inout));
                DRV_TRY(expect_name(p, &(*inout)->name));
            }
            (*inout)->a = a;
        } else if (accept_operator(p, "[")) {
            DRV_TRY(parse_subscript(p, a, inout));
        } else if (is_operator(p, "(")) {
            DRV_TRY(parse_call(p, a, inout));
        } else {
            return DRV_OK;
        }
    }
}

// A dotted name, with arguments if there are any: of a filter or a test.
static drv_status parse_named(parser *p, expr_kind kind, expr *a, expr **out) {
    DRV_TRY(new_expr(p, kind, out));
    (*out)->a = a;
    return expect_name(p, &(*out)->name);
}

static drv_status parse_filter(parser *p, expr *a, expr **out) {
    DRV_TRY(parse_named(p, EXPR_FILTER, a, out));
    return accept_operator(p, "(") ? parse_arguments(p, *out) : DRV_OK;
}

// a is [not] name, name(args) or name arg.
static drv_status parse_test(parser *p, expr **inout) {
    const bool negated = accept_word(p, "not");
    expr *test;
    DRV_TRY(parse_named(p, EXPR_TEST, *inout, &test));
    const token_kind kind = p->t->kind;
    const bool value_follows = kind == TOKEN_NAME || kind == TOKEN_STRING || kind == TOKEN_NUMBER ||
                               is_operator(p, "[") || is_operator(p, "{");
    if (accept_operator(p, "(")) {
        DRV_TRY(parse_arguments(p, test));
    } else if (value_follows && !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and") &&
               !is_word(p, "if") && !is_word(p, "is") && !is_word(p, "in") && !is_word(p, "not")) {
        expr_list args = {0};
        expr *arg;
        DRV_TRY(parse_primary(p, &arg));
        DRV_TRY(parse_postfix(p, &arg));
        DRV_TRY(add_expr(p, &args, arg));
        set_args(test, &args);
    }
    *inout = test;
    if (!negated) return DRV_OK;
    DRV_TRY(new_expr(p, EXPR_NOT, inout));
    (*inout)->a = test;
    return DRV_OK;
}

static drv_status parse_filters(parser *p, expr **inout) {
    for (;;) {
        if (accept_operator(p, "|"))
            DRV_TRY(parse_filter(p, *inout, inout));
        else if (accept_word(p, "is"))
            DRV_TRY(parse_test(p, inout));
        else if (is_operator(p, "("))
            DRV_TRY(parse_call(p, *inout, inout));
        else
            return DRV_OK;
    }
}

// --- operators

static drv_status parse_unary(parser *p, bool filters, expr **out) {
    DRV_TRY(deeper(p));
    if (is_operator(p, "-") || is_operator(p, "+")) {
        DRV_TRY(new_expr(p, EXPR_UNARY, out));
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

// From loose to tight; behind the last comes the unary.
static const binary_level binary_levels[] = {{{{"+", '+'}, {"-", '-'}}}, {{{"~", '~'}}},
        {{{"*", '*'}, {"/", '/'}, {"//", 'f'}, {"%", '%'}}}, {{{"**", 'p'}}}};
enum { N_LEVELS = sizeof binary_levels / sizeof *binary_levels };

static char accept_binary(parser *p, const binary_level *level) {
    for (int i = 0; i < 4 && level->operators[i].text; i++)
        if (accept_operator(p, level->operators[i].text)) return level->operators[i].op;
    return 0;
}

static drv_status parse_binary(parser *p, int level, expr **out) {
    if (level == N_LEVELS) return parse_unary(p, true, out);
    DRV_TRY(parse_binary(p, level + 1, out));
    for (char op; (op = accept_binary(p, &binary_levels[level]));) {
        expr *e;
        DRV_TRY(new_expr(p, EXPR_BINARY, &e));
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
        if (accept_operator(p, operators[i].text)) return operators[i].op;
    if (accept_word(p, "in")) return 'i';
    if (is_word(p, "not") && p->t[1].kind == TOKEN_NAME && p->t[1].n == 2 &&
            memcmp(p->t[1].p, "in", 2) == 0) {
        p->t += 2;
        return 'n';
    }
    return 0;
}

static drv_status parse_comparison(parser *p, expr **out) {
    expr_list others = {0};
    str ops = {0};
    DRV_TRY(parse_binary(p, 0, out));
    drv_status status = DRV_OK;
    for (char op; status == DRV_OK && (op = accept_comparison(p));) {
        expr *e = NULL;
        str_add(&ops, &op, 1);
        status = parse_binary(p, 0, &e);
        if (status == DRV_OK) status = add_expr(p, &others, e);
    }
    if (status == DRV_OK && others.n) {
        expr *e;
        value kept;
        status = new_expr(p, EXPR_COMPARE, &e);
        if (status == DRV_OK) status = value_copy_string(p->m, ops.p, ops.n, &kept);
        if (status == DRV_OK) {
            e->a = *out;
            e->ops = (char *)(uintptr_t)kept.s.p;
            set_args(e, &others);
            *out = e;
        }
    }
    str_free(&ops);
    return status;
}

static drv_status parse_not(parser *p, expr **out) {
    if (!accept_word(p, "not")) return parse_comparison(p, out);
    DRV_TRY(deeper(p));
    DRV_TRY(new_expr(p, EXPR_NOT, out));
    DRV_TRY(parse_not(p, &(*out)->a));
    p->depth--;
    return DRV_OK;
}

static drv_status parse_and(parser *p, expr **out) {
    DRV_TRY(parse_not(p, out));
    while (accept_word(p, "and")) {
        expr *e;
        DRV_TRY(new_expr(p, EXPR_AND, &e));
        e->a = *out;
        DRV_TRY(parse_not(p, &e->b));
        *out = e;
    }
    return DRV_OK;
}

static drv_status parse_or(parser *p, expr **out) {
    DRV_TRY(parse_and(p, out));
    while (accept_word(p, "or")) {
        expr *e;
        DRV_TRY(new_expr(p, EXPR_OR, &e));
        e->a = *out;
        DRV_TRY(parse_and(p, &e->b));
        *out = e;
    }
    return DRV_OK;
}

static drv_status parse_expr(parser *p, expr **out) {
    DRV_TRY(deeper(p));
    DRV_TRY(parse_or(p, out));
    while (accept_word(p, "if")) {
        expr *e;
        DRV_TRY(new_expr(p, EXPR_IF, &e));
        e->b = *out;
        DRV_TRY(parse_or(p, &e->a));
        if (accept_word(p, "else")) DRV_TRY(parse_expr(p, &e->c));
        *out = e;
    }
    p->depth--;
    return DRV_OK;
}

// a, b, c without parentheses is a tuple.
static drv_status parse_tuple(parser *p, bool conditional, expr **out) {
    expr_list items = {0};
    expr *e;
    DRV_TRY(conditional ? parse_expr(p, &e) : parse_or(p, &e));
    if (!is_operator(p, ",")) {
        *out = e;
        return DRV_OK;
    }
    DRV_TRY(new_expr(p, EXPR_LIST, out));
    (*out)->tuple = true;
    DRV_TRY(add_expr(p, &items, e));
    while (accept_operator(p, ",")) {
        if (p->t->kind == TOKEN_BLOCK_END || p->t->kind == TOKEN_PRINT_END || is_operator(p, "="))
            break;
        DRV_TRY(conditional ? parse_expr(p, &e) : parse_or(p, &e));
        DRV_TRY(add_expr(p, &items, e));
    }
    set_args(*out, &items);
    return DRV_OK;
}

// --- statements

// Names, a tuple of them (also nested), or an attribute of a namespace.
static drv_status parse_target(parser *p, bool attribute, expr **out) {
    expr_list items = {0};
    DRV_TRY(deeper(p));
    do {
        if (is_word(p, "in") || is_operator(p, "=") || p->t->kind == TOKEN_BLOCK_END ||
                is_operator(p, ")"))
            break;
        expr *e, *a;
        if (accept_operator(p, "(")) {
            DRV_TRY(parse_target(p, false, &e));
            DRV_TRY(expect_operator(p, ")"));
        } else {
            DRV_TRY(new_expr(p, EXPR_NAME, &e));
            DRV_TRY(expect_name(p, &e->name));
            if (attribute && accept_operator(p, ".")) {
                a = e;
                DRV_TRY(new_expr(p, EXPR_ATTRIBUTE, &e));
                DRV_TRY(expect_name(p, &e->name));
                e->a = a;
            }
        }
        DRV_TRY(add_expr(p, &items, e));
    } while (accept_operator(p, ","));
    p->depth--;
    if (!items.n) return fail_here(p, "expected a name");
    if (items.n == 1 && !(p->t[-1].kind == TOKEN_OPERATOR && *p->t[-1].p == ',')) {
        *out = items.e[0];
        return DRV_OK;
    }
    DRV_TRY(new_expr(p, EXPR_LIST, out));
    (*out)->tuple = true;
    set_args(*out, &items);
    return DRV_OK;
}

// A body up to {% WORD %}, which is taken.
static drv_status parse_until(parser *p, const char *word, stmt_list *out) {
    const char *const ends[] = {word, NULL};
    DRV_TRY(parse_body(p, ends, out));
    p->t++;
    return end_of_block(p);
}

static drv_status parse_if(parser *p, stmt *s) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    DRV_TRY(parse_tuple(p, true, &s->value));
    DRV_TRY(end_of_block(p));
    DRV_TRY(parse_body(p, ends, &s->body));
    if (accept_word(p, "endif")) return end_of_block(p);
    if (accept_word(p, "else")) {
        DRV_TRY(end_of_block(p));
        return parse_until(p, "endif", &s->otherwise);
    }
    void *list, *nested; // elif: an if in the else, which ends with the same endif
    const int line = p->t->line;
    p->t++;
    DRV_TRY(value_alloc(p->m, sizeof(stmt *), &list));
    DRV_TRY(value_alloc(p->m, sizeof(stmt), &nested));
    s->otherwise = (stmt_list){list, 1};
    s->otherwise.s[0] = nested;
    *s->otherwise.s[0] = (stmt){.kind = STMT_IF, .line = line};
    DRV_TRY(deeper(p));
    DRV_TRY(parse_if(p, nested));
    p->depth--;
    return DRV_OK;
}

static drv_status parse_for(parser *p, stmt *s) {
    static const char *const ends[] = {"else", "endfor", NULL};
    DRV_TRY(parse_target(p, false, &s->target));
    if (!accept_word(p, "in")) return fail_here(p, "expected \"in\"");
    DRV_TRY(parse_tuple(p, false, &s->value));
    if (accept_word(p, "if")) DRV_TRY(parse_expr(p, &s->condition));
    s->recursive = accept_word(p, "recursive");
    DRV_TRY(end_of_block(p));
    p->loops++;
    DRV_TRY(parse_body(p, ends, &s->body));
    p->loops--;
    if (accept_word(p, "endfor")) return end_of_block(p);
    p->t++;
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endfor", &s->otherwise);
}

static drv_status parse_set(parser *p, stmt *s) {
    DRV_TRY(parse_target(p, true, &s->target));
    if (accept_operator(p, "=")) {
        DRV_TRY(parse_tuple(p, true, &s->value));
        return end_of_block(p);
    }
    s->kind = STMT_SET_BLOCK;
    while (accept_operator(p, "|"))
        DRV_TRY(parse_filter(p, s->value, &s->value));
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endset", &s->body);
}

// (a, b=1): the parenthesis is open.
static drv_status parse_parameters(parser *p, macro_parameters *out) {
    value_list names = {0};
    expr_list defaults = {0};
    while (!accept_operator(p, ")")) {
        value name;
        expr *initial = NULL;
        if (names.n) DRV_TRY(expect_operator(p, ","));
        if (accept_operator(p, ")")) break;
        DRV_TRY(expect_name(p, &name));
        if (accept_operator(p, "="))
            DRV_TRY(parse_expr(p, &initial));
        else if (defaults.n && defaults.e[defaults.n - 1])
            return fail_here(p, "expected a default behind a parameter with a default");
        DRV_TRY(value_list_add(p->m, &names, name));
        DRV_TRY(add_expr(p, &defaults, initial));
    }
    *out = (macro_parameters){names.v, defaults.e, (int)names.n};
    return DRV_OK;
}

static drv_status parse_macro(parser *p, stmt *s) {
    DRV_TRY(expect_name(p, &s->text));
    DRV_TRY(expect_operator(p, "("));
    DRV_TRY(parse_parameters(p, &s->parameters));
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endmacro", &s->body);
}

static drv_status parse_call_block(parser *p, stmt *s) {
    if (accept_operator(p, "(")) DRV_TRY(parse_parameters(p, &s->parameters));
    DRV_TRY(parse_expr(p, &s->value));
    if (s->value->kind != EXPR_CALL) return fail_here(p, "expected a call");
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endcall", &s->body);
}

static drv_status parse_filter_block(parser *p, stmt *s) {
    DRV_TRY(parse_filter(p, NULL, &s->value));
    while (accept_operator(p, "|"))
        DRV_TRY(parse_filter(p, s->value, &s->value));
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endfilter", &s->body);
}

static drv_status parse_with(parser *p, stmt *s) {
    expr_list targets = {0}, values = {0};
    while (p->t->kind != TOKEN_BLOCK_END) {
        expr *target, *v;
        if (targets.n) DRV_TRY(expect_operator(p, ","));
        DRV_TRY(new_expr(p, EXPR_NAME, &target));
        DRV_TRY(expect_name(p, &target->name));
        DRV_TRY(expect_operator(p, "="));
        DRV_TRY(parse_expr(p, &v));
        DRV_TRY(add_expr(p, &targets, target));
        DRV_TRY(add_expr(p, &values, v));
    }
    s->targets = targets.e;
    s->values = values.e;
    s->n_targets = targets.n;
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endwith", &s->body);
}

static drv_status parse_generation(parser *p, stmt *s) {
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endgeneration", &s->body);
}

static drv_status parse_loop_control(parser *p, stmt *s) {
    (void)s;
    if (!p->loops) return fail_here(p, "break and continue stand inside a loop");
    return end_of_block(p);
}

static drv_status parse_statement(parser *p, stmt *s) {
    static const struct {
        const char *word;
        stmt_kind kind;
        drv_status (*parse)(parser *p, stmt *s);
    } statements[] = {{"if", STMT_IF, parse_if}, {"for", STMT_FOR, parse_for},
            {"set", STMT_SET, parse_set}, {"macro", STMT_MACRO, parse_macro},
            {"call", STMT_CALL, parse_call_block}, {"filter", STMT_FILTER, parse_filter_block},
            {"with", STMT_WITH, parse_with}, {"generation", STMT_GENERATION, parse_generation},
            {"break", STMT_BREAK, parse_loop_control},
            {"continue", STMT_CONTINUE, parse_loop_control}};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (accept_word(p, statements[i].word)) {
            *s = (stmt){.kind = statements[i].kind, .line = p->t[-1].line};
            return statements[i].parse(p, s);
        }
    return fail_here(p,
            "expected a statement that chat templates use (if, for, set, macro, call, filter, with, generation)");
}

static bool ends_here(const parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (is_word(p, *ends)) return true;
    return false;
}

// Statements up to a tag that begins with one of `ends` (NULL: to the end of the template); its
// word is next.
static drv_status parse_body(parser *p, const char *const *ends, stmt_list *out) {
    int cap = 0;
    *out = (stmt_list){0};
    DRV_TRY(deeper(p));
    while (p->t->kind != TOKEN_END) {
        void *s, *bigger;
        DRV_TRY(value_alloc(p->m, sizeof(stmt), &s));
        stmt *next = s;
        *next = (stmt){.line = p->t->line};
        if (p->t->kind == TOKEN_TEXT) {
            next->text = value_slice(p->t->p, p->t->n);
            p->t++;
        } else if (p->t->kind == TOKEN_PRINT_BEGIN) {
            p->t++;
            next->kind = STMT_PRINT;
            DRV_TRY(parse_tuple(p, true, &next->value));
            if (p->t->kind != TOKEN_PRINT_END) return fail_here(p, "expected \"}}\"");
            p->t++;
        } else {
            p->t++;
            if (ends_here(p, ends)) {
                p->depth--;
                return DRV_OK;
            }
            DRV_TRY(parse_statement(p, next));
        }
        if (out->n == cap) {
            cap = cap ? 2 * cap : 8;
            DRV_TRY(value_alloc(p->m, sizeof *out->s * (size_t)cap, &bigger));
            if (out->n) memcpy(bigger, out->s, sizeof *out->s * (size_t)out->n);
            out->s = bigger;
        }
        out->s[out->n++] = next;
    }
    p->depth--;
    if (!ends) return DRV_OK;
    char what[64];
    snprintf(what, sizeof what, "expected {%% %s %%}", ends[0]);
    for (const char *const *last = ends; *last; last++)
        snprintf(what, sizeof what, "expected {%% %s %%}", *last);
    return fail_here(p, what);
}

drv_status jinja_parse(value_memory *m, const char *name, const token_list *tokens,
        stmt_list *out) {
    parser p = {.m = m, .name = name, .t = tokens->t};
    return parse_body(&p, NULL, out);
}
