// Splits the source of a template into tokens as Jinja 2's lexer does with trim_blocks and
// lstrip_blocks on and keep_trailing_newline off, as transformers sets them
// (jinja.palletsprojects.com, "Whitespace Control").
#pragma once
#include "chat/jinja_value.h"

typedef enum token_kind {
    TOKEN_TEXT, // is printed unchanged
    TOKEN_PRINT_BEGIN,
    TOKEN_PRINT_END, // {{ }}
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END, // {% %}
    TOKEN_NAME,
    TOKEN_STRING, // unescaped, in `constant`
    TOKEN_NUMBER, // in `constant`
    TOKEN_OPERATOR,
    TOKEN_END,
} token_kind;

typedef struct token {
    token_kind kind;
    const char *p; // in the source
    size_t n;
    source_position position;
    value constant;
} token;

typedef struct token_list {
    token *t; // the last is TOKEN_END
    int n;
} token_list;

// Splits a source. `name`, the template's file, begins messages. The tokens and the copy of the
// source to which they point live in m->a.
DRV_CHECKED drv_status jinja_lex(value_memory *m, const char *name, const char *source, size_t n,
        token_list *out);
