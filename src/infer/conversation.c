// Turns of a conversation. Each is rendered whole with all before it: the generator computes only
// what is new.
#include "infer/conversation.h"

#include <string.h>

#include "data/sft/turn_end.h"

struct conversation {
    const conversation_opts *opts;
    chat_template *template;
    json_t *system; // its message; NULL: none
    json_t *turns;  // messages: user, assistant, user, ...
    generate_opts answer;
};

// Makes answers end where the template ends a turn: at its token, or, if that is not a single token,
// at its text. A text of fewer than MARKER bytes also occurs inside answers, so it ends none.
static void end_turns(arena *a, conversation *c) {
    enum { MARKER = 3 };
    const chat_model *m = c->opts->model;
    generator *g = c->opts->generator;
    const char *text;
    const int32_t id =
            turn_end(a, c->template, m->specials, m->n_specials, generator_tokenizer(g), &text);
    c->answer = c->opts->answer;
    generator_add_end(g, id);
    if (id >= 0 || strlen(text) < MARKER) return;
    const char **stops = ARENA_ARRAY(a, const char *, c->answer.n_stops + 1);
    for (int i = 0; i < c->answer.n_stops; i++)
        stops[i] = c->answer.stops[i];
    stops[c->answer.n_stops++] = text;
    c->answer.stops = stops;
}

drv_status conversation_open(arena *a, const conversation_opts *opts, conversation **out) {
    const chat_model *m = opts->model;
    conversation *c = ARENA_NEW(a, conversation);
    *c = (conversation){.opts = opts};
    DRV_TRY(chat_template_open(a, m->path, m->source, m->n_source, &c->template));
    end_turns(a, c);
    c->turns = json_array();
    *out = c;
    return DRV_OK;
}

void conversation_close(conversation *c) {
    if (!c) return;
    json_decref(c->system);
    json_decref(c->turns);
}

static json_t *new_message(const char *role, const char *text, size_t n) {
    json_t *message = json_object();
    json_object_set_new(message, "role", json_string(role));
    json_object_set_new(message, "content", generated_json(text, n));
    return message;
}

void conversation_set_system(conversation *c, const char *text) {
    json_decref(c->system);
    c->system = *text ? new_message("system", text, strlen(text)) : NULL;
}

void conversation_reset(conversation *c) {
    json_array_clear(c->turns);
}

// Encodes the system message and the turns from `first` on, up to where the answer begins.
static drv_status encode_from(const conversation *self, size_t first, id_list *ids) {
    const conversation_opts *opts = self->opts;
    json_t *messages = json_array();
    arena *a = arena_new("a turn");
    chat_input in = {.messages = messages,
            .tools = opts->tools,
            .documents = opts->documents,
            .add_generation_prompt = true,
            .specials = opts->model->specials,
            .n_specials = opts->model->n_specials};
    chat_output rendered;
    if (self->system) json_array_append(messages, self->system);
    for (size_t i = first; i < json_array_size(self->turns); i++)
        json_array_append(messages, json_array_get(self->turns, i));
    ids->n = 0;
    drv_status status = chat_date(opts->date, &in.now);
    if (status == DRV_OK) status = chat_render(a, self->template, &in, &rendered);
    if (status == DRV_OK) {
        const str *text = &rendered.text;
        status = generator_encode(opts->generator, text->p ? text->p : "", text->n,
                opts->model->built_in, ids);
        str_free(&rendered.text);
    }
    arena_free(a);
    json_decref(messages);
    if (status == DRV_OK && ids->n == 0)
        return drv_fail(DRV_E_DATA, "%s: the template makes no text of the conversation",
                opts->model->path);
    return status;
}

// Leaves out the oldest turns until there is room for an answer. *first: the first turn that is kept.
static drv_status fit_turns(const conversation *c, id_list *ids, size_t *first) {
    const int64_t capacity = generator_capacity(c->opts->generator), most = capacity / 4,
                  asked = c->opts->answer.max_tokens,
                  room = asked > 0 && asked < most ? asked : most;
    const size_t newest = json_array_size(c->turns) - 1;
    for (*first = 0;; *first += 2) {
        DRV_TRY(encode_from(c, *first, ids));
        if (ids->n + room <= capacity) return DRV_OK;
        if (*first == newest) break;
    }
    if (ids->n < capacity) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "the message has %lld tokens with the template's text, expected fewer than the context of %lld",
            (long long)ids->n, (long long)capacity);
}

static drv_status answer(const conversation *c, id_list *ids, size_t *first, generate_result *out) {
    prompt_cost cost;
    DRV_TRY(fit_turns(c, ids, first));
    DRV_TRY(generator_prompt(c->opts->generator, ids->p, ids->n, &cost));
    return generate(c->opts->generator, &c->answer, out);
}

drv_status conversation_say(conversation *c, const char *text, size_t n, conversation_turn *out) {
    id_list ids = {0};
    generate_result result = {0};
    size_t first;
    json_array_append_new(c->turns, new_message("user", text, n));
    drv_status status = answer(c, &ids, &first, &result);
    id_list_free(&ids);
    if (status != DRV_OK) {
        json_array_remove(c->turns, json_array_size(c->turns) - 1);
        return status;
    }
    *out = (conversation_turn){result.end, (int64_t)first / 2};
    while (first-- > 0)
        json_array_remove(c->turns, 0);
    const str *said = &result.text;
    json_array_append_new(c->turns, new_message("assistant", said->p ? said->p : "", said->n));
    generate_result_free(&result);
    return DRV_OK;
}
