// The tables of methods.
#pragma once
#include "chat/jinja_text_internal.h"

typedef struct method_row {
    value_kind kind;  // of the value that has it
    const char *name; // in templates; NULL ends a table
    native_function call;
} method_row;

extern const method_row methods_of_strings[];
