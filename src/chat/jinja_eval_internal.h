// Shared by the evaluator and its filters, tests, methods and functions. `self` (or `v`) is the
// value to which a filter, test, method or index is applied.
#pragma once
#include <time.h>

#include "chat/jinja_parse.h"

enum { JINJA_MAX_DEPTH = 1200, JINJA_MAX_STEPS = 5000000, JINJA_MAX_RANGE = 100000 };
enum { JINJA_MAX_OUTPUT = VALUE_MAX_TEXT, JINJA_MAX_MEMORY = 64 << 20 };

typedef struct scope scope;
typedef struct loop_state loop_state;
struct scope { // names of a template, a loop iteration or a macro
    value_dict names;
    scope *outer;
};

typedef struct generation_span {
    int64_t begin, end; // code points of the output
} generation_span;

typedef enum loop_control { RUN_ON, RUN_BREAK, RUN_CONTINUE } loop_control;

typedef struct jinja_context {
    value_memory m;
    str *out; // receives text: `output`, or the buffer of a macro or block
    str *output;
    scope *scope, *globals;
    loop_control control;
    source_position position; // of the statement, or of what failed
    int depth;
    bool failed; // position has been set for good
    bool raised; // the failure is the template's own raise_exception
    struct tm now;
    generation_span *spans;
    int n_spans, cap_spans;
} jinja_context;

// Arguments of a call: the last n_keywords are named.
typedef struct call_args {
    const value *v;
    int n;
    const value *keywords;
    int n_keywords;
} call_args;

typedef drv_status (*native_function)(jinja_context *c, const value_function *f,
        const call_args *args, value *out);

struct value_function {
    const char *name;
    native_function native;
    value self; // of a method; or a value bound to the function
    const stmt *macro;
    scope *outer;     // where a macro was defined
    loop_state *loop; // of the variable `loop`
};

// Checks that v can be printed. DRV_E_DATA: a function or generator has no useful text.
DRV_CHECKED drv_status jinja_printable(const value *v);
// Counts steps, so that no template runs for ever. DRV_E_DATA: the limit is exceeded.
DRV_CHECKED drv_status jinja_charge(jinja_context *c, int64_t steps);
// Returns the steps of a filter or method that reads a text once.
static inline int64_t jinja_text_steps(const value *v) {
    return v->kind == VALUE_STRING ? (int64_t)(v->s.n / 128) : 0;
}
DRV_CHECKED drv_status jinja_eval(jinja_context *c, const expr *e, value *out);
// Evaluate one kind of expression each, for jinja_eval.
DRV_CHECKED drv_status jinja_eval_slice(jinja_context *c, const expr *e, value *out);
DRV_CHECKED drv_status jinja_eval_unary(jinja_context *c, const expr *e, value *out);
DRV_CHECKED drv_status jinja_eval_binary(jinja_context *c, const expr *node, value *out);
DRV_CHECKED drv_status jinja_eval_compare(jinja_context *c, const expr *e, value *out);
// Compares by one of the operators of EXPR_COMPARE.
DRV_CHECKED drv_status jinja_compare(jinja_context *c, char op, const value *a, const value *b,
        bool *out);
DRV_CHECKED drv_status jinja_eval_args(jinja_context *c, const expr *e, call_args *out);
DRV_CHECKED drv_status jinja_run(jinja_context *c, const stmt_list *body);
DRV_CHECKED drv_status jinja_run_loop(jinja_context *c, const stmt *node, const value *over);
// Reads loop.name; sets *found to false if Jinja has no such name. DRV_E_DATA: not supported.
DRV_CHECKED drv_status jinja_loop_attribute(jinja_context *c, loop_state *loop, const value *name,
        bool *found, value *out);
// Runs a body and captures its text in *out.
DRV_CHECKED drv_status jinja_caught(jinja_context *c, const stmt_list *body, value *out);
DRV_CHECKED drv_status jinja_open_scope(jinja_context *c, scope *outer, scope **out);
// Assigns v to a name, a tuple of names or an attribute of a namespace, in the current scope.
DRV_CHECKED drv_status jinja_assign(jinja_context *c, const expr *target, value v);
DRV_CHECKED drv_status jinja_call(jinja_context *c, const value *callee, const call_args *args,
        value *out);
DRV_CHECKED drv_status jinja_attribute(jinja_context *c, const value *self, const value *name,
        value *out);
DRV_CHECKED drv_status jinja_item(jinja_context *c, const value *self, const value *index,
        value *out);
// Lists the items of a value that can be iterated over; *out begins empty ({0}) and may share the
// value's array. DRV_E_DATA: the value cannot be iterated over.
DRV_CHECKED drv_status jinja_items(jinja_context *c, const value *self, value_list *out);
// Escapes HTML's five characters, unless the text is safe, as markupsafe does. *out is safe.
DRV_CHECKED drv_status jinja_escape(jinja_context *c, const value *text, value *out);
// Takes the next item of a generator; false: it has ended.
bool generator_next(const value *generator, value *out);
DRV_CHECKED drv_status jinja_contains(jinja_context *c, const value *self, const value *item,
        bool *out);
DRV_CHECKED drv_status jinja_new_function(jinja_context *c, const value_function *f, value *out);
// Makes a string value of the text collected in `text`, and frees that.
DRV_CHECKED drv_status jinja_take(jinja_context *c, str *text, value *out);
// Checks that v is defined. DRV_E_DATA: it is not (using it fails in Python too).
DRV_CHECKED drv_status jinja_defined(const value *v);

// Format as Python's format % values, and as its method format.format(...).
DRV_CHECKED drv_status jinja_format_percent(jinja_context *c, const value *format,
        const call_args *args, value *out);
DRV_CHECKED drv_status jinja_format_braces(jinja_context *c, const value_function *f,
        const call_args *args, value *out);
DRV_CHECKED drv_status jinja_filter(jinja_context *c, const value *name, const value *v,
        const call_args *args, value *out);
DRV_CHECKED drv_status jinja_test(jinja_context *c, const value *name, const value *self,
        const call_args *args, bool *out);
// Finds a method of a string, list or dict, bound to v; *found false: there is none of that name.
DRV_CHECKED drv_status jinja_method(jinja_context *c, const value *v, const value *name,
        bool *found, value *out);
DRV_CHECKED drv_status jinja_add_globals(jinja_context *c);

// Return an argument by its position or name; NULL: not given.
const value *call_named(const call_args *args, int position, const value *name);
const value *call_arg(const call_args *args, int position, const char *name);
// Reads a whole number, unless v is NULL or none. `what`: the function, for messages.
DRV_CHECKED drv_status call_whole(const value *v, const char *what, int64_t *inout);
// Fails unless there are `least` to `most` arguments, named as in `names` (separated by spaces).
DRV_CHECKED drv_status call_check(const call_args *args, const char *what, int least, int most,
        const char *names);
