// Parses statements: tags and the text between them, by recursive descent.
#include <string.h>

#include "chat/jinja_parse_internal.h"

static drv_status parse_body(parser *in, const char *const *ends, stmt_list *out);

static drv_status end_of_block(parser *p) {
    if (p->t->kind != TOKEN_BLOCK_END) return parser_fail(p, "expected the end of the tag");
    p->t++;
    return DRV_OK;
}

// Parses a name, a tuple of names (also nested), or an attribute of a namespace.
static drv_status parse_target(parser *in, bool attribute, expr **out) {
    expr_list items = {0};
    DRV_TRY(parser_go_deeper(in));
    do {
        if (parser_at_word(in, "in") || parser_at_operator(in, "=") ||
                in->t->kind == TOKEN_BLOCK_END || parser_at_operator(in, ")"))
            break;
        expr *e, *a;
        if (parser_accept_operator(in, "(")) {
            DRV_TRY(parse_target(in, false, &e));
            DRV_TRY(parser_expect_operator(in, ")"));
        } else {
            DRV_TRY(parser_new_expr(in, EXPR_NAME, &e));
            DRV_TRY(parser_expect_name(in, &e->name));
            if (attribute && parser_accept_operator(in, ".")) {
                a = e;
                DRV_TRY(parser_new_expr(in, EXPR_ATTRIBUTE, &e));
                DRV_TRY(parser_expect_name(in, &e->name));
                e->a = a;
            }
        }
        DRV_TRY(parser_add_expr(in, &items, e));
    } while (parser_accept_operator(in, ","));
    in->depth--;
    if (!items.n) return parser_fail(in, "expected a name");
    if (items.n == 1 && !(in->t[-1].kind == TOKEN_OPERATOR && *in->t[-1].p == ',')) {
        *out = items.e[0];
        return DRV_OK;
    }
    DRV_TRY(parser_new_expr(in, EXPR_LIST, out));
    (*out)->tuple = true;
    parser_set_args(*out, &items);
    return DRV_OK;
}

// Parses a body up to and including {% WORD %}.
static drv_status parse_until(parser *p, const char *word, stmt_list *out) {
    const char *const ends[] = {word, NULL};
    DRV_TRY(parse_body(p, ends, out));
    p->t++;
    return end_of_block(p);
}

static drv_status parse_if(parser *in, stmt *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    DRV_TRY(jinja_parse_tuple(in, true, &node->value));
    DRV_TRY(end_of_block(in));
    DRV_TRY(parse_body(in, ends, &node->body));
    if (parser_accept_word(in, "endif")) return end_of_block(in);
    if (parser_accept_word(in, "else")) {
        DRV_TRY(end_of_block(in));
        return parse_until(in, "endif", &node->otherwise);
    }
    void *list, *nested; // elif: an if in the else, which ends with the same endif
    const source_position position = in->t->position;
    in->t++;
    DRV_TRY(value_alloc(in->m, sizeof(stmt *), &list));
    DRV_TRY(value_alloc(in->m, sizeof(stmt), &nested));
    node->otherwise = (stmt_list){list, 1};
    node->otherwise.s[0] = nested;
    *node->otherwise.s[0] = (stmt){.kind = STMT_IF, .position = position};
    DRV_TRY(parser_go_deeper(in));
    DRV_TRY(parse_if(in, nested));
    in->depth--;
    return DRV_OK;
}

static drv_status parse_for(parser *p, stmt *s) {
    static const char *const ends[] = {"else", "endfor", NULL};
    DRV_TRY(parse_target(p, false, &s->target));
    if (!parser_accept_word(p, "in")) return parser_fail(p, "expected \"in\"");
    DRV_TRY(jinja_parse_tuple(p, false, &s->value));
    if (parser_accept_word(p, "if")) DRV_TRY(jinja_parse_expr(p, &s->condition));
    DRV_TRY(end_of_block(p));
    p->loops++;
    DRV_TRY(parse_body(p, ends, &s->body));
    p->loops--;
    if (parser_accept_word(p, "endfor")) return end_of_block(p);
    p->t++;
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endfor", &s->otherwise);
}

static drv_status parse_set(parser *p, stmt *s) {
    DRV_TRY(parse_target(p, true, &s->target));
    if (parser_accept_operator(p, "=")) {
        DRV_TRY(jinja_parse_tuple(p, true, &s->value));
        return end_of_block(p);
    }
    s->kind = STMT_SET_BLOCK;
    while (parser_accept_operator(p, "|"))
        DRV_TRY(jinja_parse_filter(p, s->value, &s->value));
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endset", &s->body);
}

// Parses (a, b=1), from after the parenthesis.
static drv_status parse_parameters(parser *p, macro_parameters *out) {
    value_list names = {0};
    expr_list defaults = {0};
    while (!parser_accept_operator(p, ")")) {
        value name;
        expr *initial = NULL;
        if (names.n) DRV_TRY(parser_expect_operator(p, ","));
        if (parser_accept_operator(p, ")")) break;
        DRV_TRY(parser_expect_name(p, &name));
        if (parser_accept_operator(p, "="))
            DRV_TRY(jinja_parse_expr(p, &initial));
        else if (defaults.n && defaults.e[defaults.n - 1])
            return parser_fail(p, "expected a default after a parameter with a default");
        DRV_TRY(value_list_add(p->m, &names, name));
        DRV_TRY(parser_add_expr(p, &defaults, initial));
    }
    *out = (macro_parameters){.names = names.v, .defaults = defaults.e, .n = (int)names.n};
    return DRV_OK;
}

static drv_status parse_macro(parser *p, stmt *s) {
    DRV_TRY(parser_expect_name(p, &s->text));
    DRV_TRY(parser_expect_operator(p, "("));
    DRV_TRY(parse_parameters(p, &s->parameters));
    DRV_TRY(end_of_block(p));
    p->macros++;
    DRV_TRY(parse_until(p, "endmacro", &s->body));
    p->macros--;
    return DRV_OK;
}

static drv_status parse_filter_block(parser *p, stmt *s) {
    DRV_TRY(jinja_parse_filter(p, NULL, &s->value));
    while (parser_accept_operator(p, "|"))
        DRV_TRY(jinja_parse_filter(p, s->value, &s->value));
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endfilter", &s->body);
}

static drv_status parse_generation(parser *p, stmt *s) {
    p->marks = true;
    DRV_TRY(end_of_block(p));
    return parse_until(p, "endgeneration", &s->body);
}

static drv_status parse_loop_control(parser *p, stmt *s DRV_UNUSED) {
    if (!p->loops) return parser_fail(p, "break and continue stand inside a loop");
    return end_of_block(p);
}

static drv_status parse_statement(parser *p, stmt *s) {
    static const struct {
        const char *word;
        stmt_kind kind;
        drv_status (*parse)(parser *p, stmt *s);
    } statements[] = {{"if", STMT_IF, parse_if}, {"for", STMT_FOR, parse_for},
            {"set", STMT_SET, parse_set}, {"macro", STMT_MACRO, parse_macro},
            {"filter", STMT_FILTER, parse_filter_block},
            {"generation", STMT_GENERATION, parse_generation},
            {"break", STMT_BREAK, parse_loop_control},
            {"continue", STMT_CONTINUE, parse_loop_control}};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (parser_accept_word(p, statements[i].word)) {
            *s = (stmt){.kind = statements[i].kind, .position = p->t[-1].position};
            return statements[i].parse(p, s);
        }
    return parser_fail(p,
            "expected a statement that chat templates use (if, for, set, macro, filter, generation)");
}

static bool ends_here(const parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (parser_at_word(p, *ends)) return true;
    return false;
}

// Parses statements up to a tag that begins with one of `ends` (NULL: to the end of the template),
// and stops before that word.
static drv_status parse_body(parser *in, const char *const *ends, stmt_list *out) {
    int cap = 0;
    *out = (stmt_list){0};
    DRV_TRY(parser_go_deeper(in));
    while (in->t->kind != TOKEN_END) {
        void *room, *bigger;
        DRV_TRY(value_alloc(in->m, sizeof(stmt), &room));
        stmt *next = room;
        *next = (stmt){.position = in->t->position};
        if (in->t->kind == TOKEN_TEXT) {
            next->text = value_slice(in->t->p, in->t->n);
            in->t++;
        } else if (in->t->kind == TOKEN_PRINT_BEGIN) {
            in->t++;
            next->kind = STMT_PRINT;
            DRV_TRY(jinja_parse_tuple(in, true, &next->value));
            if (in->t->kind != TOKEN_PRINT_END) return parser_fail(in, "expected \"}}\"");
            in->t++;
        } else {
            in->t++;
            if (ends_here(in, ends)) {
                in->depth--;
                return DRV_OK;
            }
            DRV_TRY(parse_statement(in, next));
        }
        if (out->n == cap) {
            cap = cap ? 2 * cap : 8;
            DRV_TRY(value_alloc(in->m, sizeof *out->s * (size_t)cap, &bigger));
            if (out->n) memcpy(bigger, out->s, sizeof *out->s * (size_t)out->n);
            out->s = bigger;
        }
        out->s[out->n++] = next;
    }
    in->depth--;
    if (!ends) return DRV_OK;
    char what[64];
    snprintf(what, sizeof what, "expected {%% %s %%}", ends[0]);
    for (const char *const *last = ends; *last; last++)
        snprintf(what, sizeof what, "expected {%% %s %%}", *last);
    return parser_fail(in, what);
}

drv_status jinja_parse(value_memory *m, const char *name, const token_list *tokens, stmt_list *out,
        bool *marks) {
    parser p = {.m = m, .name = name, .t = tokens->t};
    DRV_TRY(parse_body(&p, NULL, out));
    *marks = p.marks;
    return DRV_OK;
}
