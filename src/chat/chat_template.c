// Does what transformers does around a template: defines the names that it sees, and removes nulls
// from messages.
#include "chat/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "chat/jinja_eval_internal.h"

struct chat_template {
    const char *name;
    stmt_list body;
    bool marks;       // it has {% generation %}
    bool asks_date;   // it names strftime_now
    bool reads_parts; // content may be a list
};

// Returns whether a template checks the type of a message's content, or iterates over its parts.
static bool reads_parts(const char *source, size_t n) {
    static const char *const signs[] = {"is string", "is iterable", "is sequence", "in content",
            "in message.content", "in message['content']", "in message[\"content\"]",
            "in m.content", "in m['content']", ".type", "['type']", "[\"type\"]"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (memmem(source, n, signs[i], strlen(signs[i]))) return true;
    return false;
}

drv_status chat_template_open(arena *a, const char *name, const char *source, size_t n,
        chat_template **out) {
    value_memory m = {.a = a, .max_bytes = JINJA_MAX_MEMORY, .max_steps = JINJA_MAX_STEPS};
    token_list tokens;
    chat_template *t = ARENA_NEW(a, chat_template);
    t->name = name;
    t->asks_date = memmem(source, n, "strftime_now", strlen("strftime_now"));
    t->reads_parts = reads_parts(source, n);
    DRV_TRY(jinja_lex(&m, name, source, n, &tokens));
    DRV_TRY(jinja_parse(&m, name, &tokens, &t->body, &t->marks));
    *out = t;
    return DRV_OK;
}

const char *chat_template_name(const chat_template *t) {
    return t->name;
}

bool chat_template_marks(const chat_template *t) {
    return t->marks;
}

bool chat_template_reads_parts(const chat_template *t) {
    return t->reads_parts;
}

bool chat_template_asks_date(const chat_template *t) {
    return t->asks_date;
}

// Copies a message without nulls, with its reasoning under every name that templates use.
static json_t *plain_message(const json_t *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *reasoning = NULL, *out = json_object(), *v;
    const char *key;
    for (size_t i = 0; i < sizeof names / sizeof *names && !reasoning; i++) {
        v = json_object_get(message, names[i]);
        if (v && !json_is_null(v)) reasoning = v;
    }
    if (reasoning) json_object_set(out, "thinking", reasoning);
    json_object_foreach((json_t *)(uintptr_t)message, key, v) if (!json_is_null(v))
            json_object_set(out, key, v);
    if (reasoning) json_object_set(out, "reasoning_content", reasoning);
    return out;
}

static drv_status add_messages(jinja_context *c, const json_t *messages) {
    value list;
    DRV_TRY(value_new_list(&c->m, &list));
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return drv_fail(DRV_E_DATA, "the conversation is empty, expected a list of messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        if (!json_is_object(message))
            return drv_fail(DRV_E_DATA, "message %zu is not an object", i);
        json_t *plain = plain_message(message);
        value v;
        drv_status status = value_from_json(&c->m, plain, 0, &v);
        if (status == DRV_OK) status = value_list_add(&c->m, list.list, v);
        json_decref(plain);
        DRV_TRY(status);
    }
    return value_dict_set(&c->m, &c->globals->names, value_text("messages"), list);
}

static drv_status add_json(jinja_context *c, const char *name, const json_t *json) {
    value v = value_none();
    if (json && !json_is_null(json)) DRV_TRY(value_from_json(&c->m, json, 0, &v));
    return value_dict_set(&c->m, &c->globals->names, value_text(name), v);
}

static drv_status add_names(jinja_context *c, const chat_input *in) {
    value_dict *names = &c->globals->names;
    DRV_TRY(jinja_add_globals(c));
    for (int i = 0; i < in->n_specials; i++)
        DRV_TRY(value_dict_set(&c->m, names, value_text(in->specials[i].role),
                value_text(in->specials[i].text)));
    DRV_TRY(add_messages(c, in->messages));
    DRV_TRY(add_json(c, "tools", in->tools));
    DRV_TRY(add_json(c, "documents", in->documents));
    return value_dict_set(&c->m, names, value_text("add_generation_prompt"),
            value_bool(in->add_generation_prompt));
}

static drv_status run(jinja_context *c, const chat_template *t, const chat_input *in) {
    scope outer = {0}, inner = {.outer = &outer};
    c->globals = &outer;
    c->scope = &inner; // what the template sets hides the names it was given
    DRV_TRY(add_names(c, in));
    drv_status status = jinja_run(c, &t->body);
    if (status == DRV_OK) status = jinja_charge(c, 0); // counts the steps of the last comparison
    if (status == DRV_OK) return DRV_OK;
    if (c->raised)
        return drv_context(status, "%s:%d:%d: the template refuses the conversation", t->name,
                c->position.line, c->position.column);
    return drv_context(status, "%s:%d:%d", t->name, c->position.line, c->position.column);
}

drv_status chat_render(arena *a, const chat_template *t, const chat_input *in, chat_output *out) {
    *out = (chat_output){0};
    arena *work = arena_new("chat template");
    jinja_context c = {.m = {.a = work, .max_bytes = JINJA_MAX_MEMORY, .max_steps = JINJA_MAX_STEPS},
            .out = &out->text,
            .output = &out->text,
            .now = in->now};
    drv_status status = run(&c, t, in);
    if (status == DRV_OK) {
        out->n_spans = c.n_spans;
        out->spans = ARENA_ARRAY(a, chat_span, c.n_spans + 1);
        for (int i = 0; i < c.n_spans; i++)
            out->spans[i] = (chat_span){c.spans[i].begin, c.spans[i].end};
    } else {
        str_free(&out->text);
    }
    free(c.spans);
    arena_free(work);
    return status;
}
