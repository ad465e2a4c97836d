// Parses tokens into the tree of a template. Statements of Jinja that chat templates do not use
// (include, import, extends, block, autoescape, do) are refused by name, line and column.
#pragma once
#include "chat/jinja_lex.h"

typedef struct expr expr;
typedef struct stmt stmt;

typedef enum expr_kind {
    EXPR_CONSTANT,  // constant
    EXPR_NAME,      // name
    EXPR_LIST,      // args; tuple
    EXPR_DICT,      // args: key, value, key, value ...
    EXPR_ATTRIBUTE, // a.name
    EXPR_ITEM,      // a[b]
    EXPR_SLICE,     // a[args[0]:args[1]:args[2]], a missing part is the constant none
    EXPR_CALL,      // a(args, keywords)
    EXPR_FILTER,    // a | name(args, keywords); a NULL: of a filter block
    EXPR_TEST,      // a is name(args)
    EXPR_NOT,
    EXPR_AND,
    EXPR_OR,
    EXPR_IF,      // b if a else c (NULL: undefined)
    EXPR_UNARY,   // op '-' or '+', a
    EXPR_BINARY,  // a op b: + - * / f(loor) % p(ower) ~
    EXPR_COMPARE, // a, then args[i] by the character ops[i]: = ! < > l(e) g(e) i(n) n(ot in)
} expr_kind;

struct expr {
    expr_kind kind;
    source_position position;
    value constant;
    value name; // a string
    expr *a, *b, *c;
    expr **args;
    int n_args;
    value *keywords; // names of the last n_keywords args
    int n_keywords;
    char *ops;
    char op;
    bool tuple;
};

typedef enum stmt_kind {
    STMT_TEXT,       // text
    STMT_PRINT,      // value
    STMT_IF,         // value, body, otherwise
    STMT_FOR,        // target in value if condition: body, otherwise
    STMT_SET,        // target = value
    STMT_SET_BLOCK,  // target = the output of body, through the filter `value` if there is one
    STMT_MACRO,      // name, parameters, body
    STMT_FILTER,     // the output of body, through the filter `value`, whose a is NULL
    STMT_GENERATION, // body, whose place in the output is recorded
    STMT_BREAK,
    STMT_CONTINUE,
} stmt_kind;

typedef struct stmt_list {
    stmt **s;
    int n;
} stmt_list;

typedef struct macro_parameters {
    value *names;
    expr **defaults; // NULL: none
    int n;
} macro_parameters;

struct stmt {
    stmt_kind kind;
    source_position position;
    value text; // or the macro's name
    expr *target, *value, *condition;
    stmt_list body, otherwise;
    macro_parameters parameters;
};

// Parses a template. *marks: it has a {% generation %} block.
DRV_CHECKED drv_status jinja_parse(value_memory *m, const char *name, const token_list *tokens,
        stmt_list *out, bool *marks);
