// Runs {% for %}: its iterations, the variable `loop`, and its condition, which chooses items as
// late as in Jinja, since it may depend on what earlier iterations have set.

#include "chat/jinja_eval_internal.h"

struct loop_state {
    const stmt *node;
    value_list all;    // the items to iterate over
    int64_t n_asked;   // items for which the condition was evaluated
    value_list chosen; // without a condition: all
    int64_t index;     // of the iteration, from 0
    scope *asking;     // scope of the condition; NULL: there is no condition
};

// Chooses items until there are n; *there false: there are fewer.
static drv_status choose(jinja_context *c, loop_state *loop, int64_t n, bool *there) {
    scope *inner = c->scope;
    drv_status status = DRV_OK;
    while (loop->chosen.n < n && loop->n_asked < loop->all.n && status == DRV_OK) {
        const value item = loop->all.v[loop->n_asked++];
        value holds = value_none();
        c->scope = loop->asking;
        status = jinja_assign(c, loop->node->target, item);
        if (status == DRV_OK) status = jinja_eval(c, loop->node->condition, &holds);
        if (status == DRV_OK && value_true(&holds))
            status = value_list_add(&c->m, &loop->chosen, item);
        c->scope = inner;
    }
    *there = loop->chosen.n >= n;
    return status;
}

// --- the variable `loop`

// Evaluates the attributes of `loop` that depend on later items.
static drv_status ahead(jinja_context *c, loop_state *loop, const value *name, value *out) {
    bool there;
    if (value_is(name, "last") || value_is(name, "nextitem")) {
        DRV_TRY(choose(c, loop, loop->index + 2, &there));
        *out = value_is(name, "last") ? value_bool(!there)
               : there                ? loop->chosen.v[loop->index + 1]
                                      : value_undefined("nextitem", 8);
        return DRV_OK;
    }
    DRV_TRY(choose(c, loop, INT64_MAX, &there));
    const int64_t n = loop->chosen.n;
    *out = value_int(value_is(name, "length")     ? n
                     : value_is(name, "revindex") ? n - loop->index
                                                  : n - loop->index - 1);
    return DRV_OK;
}

drv_status jinja_loop_attribute(jinja_context *c, loop_state *loop, const value *name, bool *found,
        value *out) {
    const int64_t i = loop->index;
    const struct {
        const char *name;
        value v;
    } known[] = {{"index", value_int(i + 1)}, {"index0", value_int(i)},
            {"first", value_bool(i == 0)},
            {"previtem", i ? loop->chosen.v[i - 1] : value_undefined("previtem", 8)}};
    static const char *const coming[] = {"last", "nextitem", "length", "revindex", "revindex0"},
                             *const refused[] = {"cycle", "changed", "depth", "depth0"};
    *found = true;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (value_is(name, known[k].name)) {
            *out = known[k].v;
            return DRV_OK;
        }
    for (size_t k = 0; k < sizeof coming / sizeof *coming; k++)
        if (value_is(name, coming[k])) return ahead(c, loop, name, out);
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
        if (value_is(name, refused[k]))
            return drv_fail(DRV_E_DATA, "loop.%s is not supported", refused[k]);
    *found = false;
    return DRV_OK;
}

// --- turns

// Runs the iterations in a scope of their own, which is the current one.
static drv_status run_turns(jinja_context *c, loop_state *loop) {
    const stmt *node = loop->node;
    bool there;
    value self;
    DRV_TRY(jinja_new_function(c, &(value_function){.name = "loop", .loop = loop}, &self));
    DRV_TRY(choose(c, loop, 1, &there));
    if (!there) return jinja_run(c, &node->otherwise);
    while (there) {
        c->scope->names.keys.n = c->scope->names.values.n = 0; // gone with the iteration
        DRV_TRY(value_dict_set(&c->m, &c->scope->names, value_text("loop"), self));
        DRV_TRY(jinja_assign(c, node->target, loop->chosen.v[loop->index]));
        DRV_TRY(jinja_run(c, &node->body));
        const loop_control control = c->control;
        c->control = RUN_ON;
        if (control == RUN_BREAK) break;
        DRV_TRY(choose(c, loop, loop->index + 2, &there));
        loop->index++;
    }
    return DRV_OK;
}

drv_status jinja_run_loop(jinja_context *c, const stmt *node, const value *over) {
    scope *outer = c->scope, *inner;
    void *p;
    DRV_TRY(value_alloc(&c->m, sizeof(loop_state), &p));
    loop_state *loop = p;
    *loop = (loop_state){.node = node};
    DRV_TRY(jinja_items(c, over, &loop->all));
    if (node->condition) {
        DRV_TRY(jinja_open_scope(c, outer, &loop->asking));
    } else {
        loop->chosen = loop->all;
        loop->n_asked = loop->all.n;
    }
    DRV_TRY(jinja_open_scope(c, outer, &inner));
    c->scope = inner;
    drv_status status = run_turns(c, loop);
    c->scope = outer;
    return status;
}
