// A conversation as text, tokens, and marks on those that are answers.
#include "data/sft/sft_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/log.h"
#include "chat/chat_model.h"
#include "data/sft/sft_record.h"
#include "data/sft/template_words.h"
#include "data/sft/turn_end.h"

// --- opening
// The end of a text, by the tokenizer's folder or the tokenizer itself.
static drv_status add_eos(arena *a, const tokenizer *t, const char *folder, chat_model *m) {
    const int32_t eos = tokenizer_role(t, ROLE_EOS);
    for (int i = 0; i < m->n_specials; i++)
        if (strcmp(m->specials[i].role, "eos_token") == 0) return DRV_OK;
    if (eos < 0)
        return drv_fail(DRV_E_USAGE,
                "%s: the tokenizer names no end-of-text token, which the template alpaca puts at the end of an answer",
                folder);
    str text = {0};
    tokenizer_decode(t, &eos, 1, false, &text);
    m->specials[m->n_specials++] = (special_text){"eos_token", str_keep(a, &text)};
    return DRV_OK;
}

static drv_status find_template(arena *a, const tokenizer *tok, const char *folder,
        const char *name, chat_model *m) {
    if (strcmp(name, "alpaca") == 0) {
        chat_model_take_alpaca(m);
        return add_eos(a, tok, folder, m);
    }
    if (strcmp(name, "chat") != 0) {
        char *text;
        DRV_TRY_CTX(file_read_any(a, name, &text, &m->n_source),
                "the template, expected \"chat\", \"alpaca\" or a file");
        m->path = name;
        m->source = text;
    }
    if (!m->source)
        return drv_fail(DRV_E_USAGE,
                "%s: the tokenizer has no chat template (chat_template.jinja, or chat_template in "
                "tokenizer_config.json); give --template alpaca or --template FILE",
                folder);
    return DRV_OK;
}

// Returns the hash of everything that the rendered text depends on.
static uint64_t hash_of(const chat_model *model, const chat_model *with_tools, const char *day) {
    str all = {0};
    str_add(&all, model->source, model->n_source);
    if (with_tools->source != model->source)
        str_add(&all, with_tools->source, with_tools->n_source);
    for (int i = 0; i < model->n_specials; i++)
        str_printf(&all, "\n%s %s", model->specials[i].role, model->specials[i].text);
    if (*day) str_printf(&all, "\n%s", day);
    const uint64_t hash = XXH3_64bits(all.p, all.n);
    str_free(&all);
    return hash;
}

// Opens the folder's template for records with tools, if it has a different one.
static drv_status find_tool_template(arena *a, const char *folder, const chat_model *model,
        chat_model *out, const chat_template **template) {
    chat_template *other;
    DRV_TRY(chat_model_read(a, folder, true, out));
    if (out->n_source == model->n_source &&
            memcmp(out->source, model->source, out->n_source) == 0) {
        *out = *model;
        return DRV_OK;
    }
    DRV_TRY(chat_template_open(a, out->path, out->source, out->n_source, &other));
    log_info("%s: conversations with tools use its template tool_use", out->path);
    *template = other;
    return DRV_OK;
}

// Returns the source of the template in a form that a folder can have: programs that apply the
// template of a folder encode the text without a BOS and define eos_token as the folder names it,
// so the source of a built-in template gets both.
static const char *given_source(arena *a, const tokenizer *tok, const char *name,
        const chat_model *model, bool names_eos) {
    str source = {0};
    id_list ids = {0};
    if (strcmp(name, "chat") == 0) return NULL;
    encoder *e = encoder_new(tok);
    encoder_run(e, "", 0, true, &ids);
    const bool begins = model->built_in && ids.n > 0 && ids.p[0] == tokenizer_role(tok, ROLE_BOS);
    if (begins) str_puts(&source, tokenizer_token_text(tok, ids.p[0]));
    for (int i = 0; i < model->n_specials && model->built_in && !names_eos; i++)
        if (strcmp(model->specials[i].role, "eos_token") == 0)
            str_printf(&source, "{%%- set eos_token = '%s' -%%}", model->specials[i].text);
    str_add(&source, model->source, model->n_source);
    encoder_free(e);
    id_list_free(&ids);
    return str_keep(a, &source);
}

drv_status sft_format_open(arena *a, const tokenizer *tok, const char *folder, const char *name,
        const char *date, const sft_format **out) {
    chat_model model, tool_model;
    chat_template *template;
    struct tm now;
    sft_format *format = ARENA_NEW(a, sft_format);
    folder = path_folder(a, folder);
    if (!name) name = "chat";
    DRV_TRY(chat_model_read(a, folder, false, &model));
    const int n_named = model.n_specials;
    DRV_TRY(find_template(a, tok, folder, name, &model));
    DRV_TRY(chat_template_open(a, model.path, model.source, model.n_source, &template));
    const chat_template *with_tools = template;
    tool_model = model;
    if (strcmp(name, "chat") == 0)
        DRV_TRY(find_tool_template(a, folder, &model, &tool_model, &with_tools));
    template_tell_words(tok, &model);
    if (with_tools != template) template_tell_words(tok, &tool_model);
    DRV_TRY(chat_date(date, &now));
    char day[16] = "";
    if (chat_template_asks_date(template) || chat_template_asks_date(with_tools)) {
        strftime(day, sizeof day, "%Y-%m-%d", &now); // a build of the same day can be resumed
        log_info("%s reads the date, which is set to %s (--date changes it)", model.path, day);
    }
    *format = (sft_format){.hash = hash_of(&model, &tool_model, day),
            .tokenizer = tok,
            .template = template,
            .with_tools = with_tools,
            .specials = model.specials,
            .n_specials = model.n_specials,
            .now = now,
            .given = given_source(a, tok, name, &model, model.n_specials == n_named),
            .built_in = model.built_in};
    *out = format;
    return DRV_OK;
}

const chat_template *conversation_template(const sft_format *f, const json_t *tools) {
    return tools ? f->with_tools : f->template;
}

uint64_t sft_format_hash(const sft_format *f) {
    return f->hash;
}

const char *sft_format_name(const sft_format *f) {
    return f->template ? chat_template_name(f->template) : "none";
}

const char *sft_format_given(const sft_format *f) {
    return f->given;
}

int32_t sft_format_turn_end(const sft_format *f, const tokenizer *tok) {
    if (!f->template) return f->eos;
    arena *a = arena_new("end of a turn");
    const int32_t id = turn_end(a, f->template, f->specials, f->n_specials, tok, NULL);
    arena_free(a);
    return id;
}

void sft_example_free(sft_example *x) {
    id_list_free(&x->ids);
    id_list_free(&x->inner);
    str_free(&x->roles);
}

// --- answers in the text
static bool is_assistant(const json_t *messages, size_t i) {
    const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
    return role && strcmp(role, "assistant") == 0;
}

// Joins content that is a list of parts, {"type": "text", "text": ...}, into one text.
static drv_status join_parts(json_t *message, size_t number) {
    const json_t *parts = json_object_get(message, "content");
    str text = {0};
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i),
                     *said = json_is_string(part) ? part : json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!json_is_string(said) || (type && strcmp(type, "text") != 0)) {
            str_free(&text);
            return drv_fail(DRV_E_DATA,
                    "message %zu: part %zu of its content is of type \"%.40s\", expected text",
                    number, i, type ? type : "?");
        }
        str_add(&text, json_string_value(said), json_string_length(said));
    }
    json_object_set_new(message, "content", json_stringn(text.p ? text.p : "", text.n));
    str_free(&text);
    return DRV_OK;
}

drv_status conversation_join_content(const chat_template *template, json_t *messages) {
    if (chat_template_reads_parts(template)) return DRV_OK;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i);
        if (!json_is_array(json_object_get(message, "content"))) continue;
        json_t *copy = json_copy(message);
        json_array_set_new(messages, i, copy);
        DRV_TRY(join_parts(copy, i));
    }
    return DRV_OK;
}

// Returns whether the record says that a message is not learned: "weight": 0 (OpenAI's fine-tuning)
// or "train": false (axolotl).
static bool is_left_out(const json_t *messages, size_t i) {
    const json_t *message = json_array_get(messages, i),
                 *weight = json_object_get(message, "weight");
    return json_is_false(json_object_get(message, "train")) ||
           (json_is_number(weight) && !(json_number_value(weight) > 0));
}

static bool is_answer(const json_t *messages, size_t i) {
    return is_assistant(messages, i) && !is_left_out(messages, i);
}

static drv_status check_weights(const json_t *messages) {
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *weight = json_object_get(json_array_get(messages, i), "weight");
        const double x = json_number_value(weight);
        if (json_is_number(weight) && (x < 0 || (x > 0 && x < 1) || x > 1))
            return drv_fail(DRV_E_DATA, "message %zu: \"weight\" is %g, expected 0 or 1", i, x);
    }
    return DRV_OK;
}

void conversation_add(conversation *c, size_t begin, size_t end, bool last) {
    MEM_GROW(c->answers, c->n, c->cap);
    c->answers[c->n++] = (answer){begin, end, last};
}

// The text of the first n messages.
drv_status conversation_render(const conversation *c, size_t n, bool prompt, chat_output *out) {
    json_t *part = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append(part, json_array_get(c->messages, i));
    const chat_input in = {.messages = part,
            .tools = c->tools,
            .add_generation_prompt = prompt,
            .specials = c->f->specials,
            .n_specials = c->f->n_specials,
            .now = c->f->now};
    const drv_status status = chat_render(c->a, c->template, &in, out);
    json_decref(part);
    return status;
}

static size_t byte_of_point(const str *text, int64_t point) {
    size_t i = 0;
    for (; i < text->n; i++)
        if ((text->p[i] & 0xC0) != 0x80 && point-- == 0) break;
    return i;
}

// Blocks of the last answer come after all blocks of the messages before it.
drv_status conversation_marked(conversation *c) {
    const chat_output *whole = &c->whole;
    const size_t n_messages = json_array_size(c->messages);
    int before = whole->n_spans - 1;
    chat_output earlier;
    if (c->last == 0) before = 0;
    if (c->last > 0 && c->last < n_messages &&
            conversation_render(c, c->last, false, &earlier) == DRV_OK) {
        before = earlier.n_spans;
        str_free(&earlier.text);
    }
    for (int i = 0; i < whole->n_spans; i++)
        conversation_add(c, byte_of_point(&whole->text, whole->spans[i].begin),
                byte_of_point(&whole->text, whole->spans[i].end), i >= before);
    return DRV_OK;
}

// Empties the blocks of messages that are not to be learned: those that rendering with the message
// adds to rendering without it.
static drv_status unmark_left_out(conversation *c) {
    const size_t n_messages = json_array_size(c->messages);
    for (size_t i = 0; i < n_messages; i++) {
        int n_spans[2] = {0, c->whole.n_spans};
        if (!is_assistant(c->messages, i) || !is_left_out(c->messages, i)) continue;
        for (size_t k = 0; k < 2; k++) {
            chat_output front;
            if (i + k == 0 || i + k == n_messages) continue;
            DRV_TRY(conversation_render(c, i + k, false, &front));
            n_spans[k] = front.n_spans;
            str_free(&front.text);
        }
        for (int k = n_spans[0]; k < n_spans[1] && k < c->n; k++)
            c->answers[k] = (answer){0}; // holds no byte
    }
    return DRV_OK;
}

// The length of the text of the first n messages, which the whole text must begin with.
drv_status conversation_front(conversation *c, size_t n, bool prompt, sft_example *x, size_t *out) {
    chat_output front;
    DRV_TRY(conversation_render(c, n, prompt, &front));
    const str *whole = &c->whole.text;
    *out = front.text.n;
    const bool same = front.text.n <= whole->n &&
                      memcmp(whole->p, front.text.p ? front.text.p : "", front.text.n) == 0;
    str_free(&front.text);
    if (same) return DRV_OK;
    x->misfit = true;
    return drv_fail(DRV_E_DATA,
            "%s: the answers cannot be found: the text of the first %zu messages%s is not the beginning of the text of all %zu; put {%% generation %%} around the answers in a copy of the template and give it by --template",
            chat_template_name(c->template), n, prompt ? " with the generation prompt" : "",
            json_array_size(c->messages));
}

static drv_status answers_by_front(conversation *c, sft_example *x) {
    const size_t n = json_array_size(c->messages);
    for (size_t i = 0; i < n; i++) {
        size_t begin = 0, end = c->whole.text.n;
        if (!is_answer(c->messages, i)) continue;
        if (i == 0) {
            x->misfit = false;
            return drv_fail(DRV_E_DATA,
                    "the conversation begins with the assistant: without {%% generation %%} in the template the beginning of that answer cannot be found");
        }
        DRV_TRY(conversation_front(c, i, true, x, &begin));
        if (i + 1 < n) DRV_TRY(conversation_front(c, i + 1, false, x, &end));
        conversation_add(c, begin, end < begin ? begin : end, i == c->last);
    }
    return DRV_OK;
}

// --- tokens
// Marks the tokens of answers: those that contain a byte of one, and empty ones inside one.
static void mark(const conversation *c, const offset_list *begins, int64_t n_bytes, char *roles) {
    for (int k = 0; k < c->n; k++) {
        const int64_t from = (int64_t)c->answers[k].begin, to = (int64_t)c->answers[k].end;
        for (int64_t i = 0; i < begins->n; i++) {
            const int64_t begin = begins->p[i],
                          end = i + 1 < begins->n ? begins->p[i + 1] : n_bytes;
            if (begin < to && (end > from || (begin == end && begin >= from)))
                roles[i] = c->answers[k].last ? ROLE_LAST_ANSWER : ROLE_ANSWER;
        }
    }
}

drv_status conversation_encode(conversation *c, encoder *e, sft_example *x) {
    const str *text = &c->whole.text;
    const int64_t first = x->ids.n;
    offset_list begins = {0};
    // A built-in template writes the end of the text itself, but not the token that the tokenizer
    // puts in front of texts.
    const text_piece piece = {text->p ? text->p : "", text->n, true, false};
    encoder_piece_traced(e, &piece, c->f->built_in, &x->ids, &begins);
    if (c->f->built_in) tokenizer_begin_once(c->f->tokenizer, &x->ids, first, &begins);
    const size_t n = (size_t)(x->ids.n - first);
    str_reserve(&x->roles, n);
    memset(x->roles.p + x->roles.n, ROLE_OTHER, n + 1);
    mark(c, &begins, (int64_t)text->n, x->roles.p + x->roles.n);
    x->roles.n += n;
    offset_list_free(&begins);
    if (n == 0)
        return drv_fail(DRV_E_DATA,
                "no tokens: its text is empty, or the tokenizer has none for it");
    return DRV_OK;
}

// Appends the document of one answer: the messages up to it, with the loss on this answer alone.
static drv_status encode_turn(const conversation *c, size_t i, encoder *e, sft_example *x) {
    json_t *messages = json_array();
    for (size_t k = 0; k <= i; k++)
        json_array_append(messages, json_array_get(c->messages, k));
    conversation turn = *c;
    turn.messages = messages;
    turn.answers = NULL;
    turn.n = turn.cap = 0;
    size_t begin;
    drv_status status = conversation_render(&turn, i + 1, false, &turn.whole);
    if (status == DRV_OK) {
        status = conversation_front(&turn, i, true, x, &begin);
        if (status == DRV_OK) conversation_add(&turn, begin, turn.whole.text.n, i == c->last);
        if (status == DRV_OK) status = conversation_encode(&turn, e, x);
        str_free(&turn.whole.text);
    }
    free(turn.answers);
    json_decref(messages);
    return status;
}

static drv_status encode_turns(const conversation *c, encoder *e, sft_example *x) {
    const sft_example before = *x;
    drv_status status = DRV_OK;
    x->misfit = false;
    for (size_t i = 0; i < json_array_size(c->messages) && status == DRV_OK; i++) {
        if (!is_answer(c->messages, i)) continue;
        if (x->ids.n > before.ids.n) id_list_add(&x->inner, (int32_t)x->ids.n);
        status = encode_turn(c, i, e, x);
    }
    if (status == DRV_OK) return DRV_OK;
    x->ids.n = before.ids.n;
    x->roles.n = before.roles.n;
    x->inner.n = before.inner.n;
    return status;
}

static drv_status run(conversation *c, encoder *e, sft_example *x) {
    c->last = json_array_size(c->messages);
    DRV_TRY(check_weights(c->messages));
    for (size_t i = json_array_size(c->messages);
            i-- > 0 && c->last == json_array_size(c->messages);)
        if (is_answer(c->messages, i)) c->last = i;
    DRV_TRY(conversation_render(c, json_array_size(c->messages), false, &c->whole));
    const bool marks = chat_template_marks(c->template);
    drv_status status = marks ? conversation_marked(c) : answers_by_front(c, x);
    if (status == DRV_OK && marks) status = unmark_left_out(c);
    if (status == DRV_OK)
        status = conversation_encode(c, e, x);
    else if (x->misfit && !marks)
        status = encode_turns(c, e, x);
    str_free(&c->whole.text);
    return status;
}

// Leaves only role and content for templates other than the built-in one.
void conversation_join_parts(const sft_format *f, json_t *messages) {
    for (size_t i = 0; !f->built_in && i < json_array_size(messages); i++) {
        json_object_del(json_array_get(messages, i), "instruction");
        json_object_del(json_array_get(messages, i), "input");
    }
}

drv_status sft_encode(const sft_format *f, encoder *e, const char *line, size_t n, sft_example *x) {
    sft_record record;
    x->misfit = false;
    DRV_TRY(sft_record_read(line, n, &record));
    if (record.parted) conversation_join_parts(f, record.messages);
    conversation c = {.f = f,
            .template = conversation_template(f, record.tools),
            .a = arena_new("conversation"),
            .messages = record.messages,
            .tools = record.tools};
    drv_status status = conversation_join_content(c.template, record.messages);
    if (status == DRV_OK) status = run(&c, e, x);
    free(c.answers);
    arena_free(c.a);
    sft_record_free(&record);
    return status;
}
