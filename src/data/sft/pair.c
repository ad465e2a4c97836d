// Encodes both responses of a pair, each as a conversation after the same prompt.
#include "data/sft/pair.h"

#include <stdlib.h>

#include "data/sft/sft_internal.h"

drv_status pair_texts_open(arena *a, const tokenizer *tok, const char *folder,
        const sft_format **out) {
    sft_format *format = ARENA_NEW(a, sft_format);
    *format =
            (sft_format){.tokenizer = tok, .eos = tokenizer_role(tok, ROLE_EOS), .built_in = true};
    if (format->eos < 0)
        return drv_fail(DRV_E_USAGE,
                "%s: the tokenizer names no end-of-text token (eos_token in tokenizer_config.json), which ends a "
                "response with --template none",
                folder);
    *out = format;
    return DRV_OK;
}

// --- messages
// Finds where the response begins in the text, or which blocks of it are marked.
static drv_status find_response(conversation *c, sft_example *x) {
    size_t begin;
    drv_saved front;
    drv_save(conversation_front(c, c->last, true, x, &begin), &front);
    if (front.status == DRV_OK) {
        conversation_add(c, begin, c->whole.text.n, true);
        if (begin < c->whole.text.n) return DRV_OK;
        return drv_fail(DRV_E_DATA, "%s writes nothing of a response",
                chat_template_name(c->template));
    }
    if (!x->misfit || !chat_template_marks(c->template)) return drv_restore(&front);
    DRV_TRY(conversation_marked(c));
    if (c->n == 0 || !c->answers[c->n - 1].last) return drv_restore(&front);
    x->misfit = false;
    return DRV_OK;
}

static drv_status add_response(const sft_format *f, encoder *e, const pair_record *record,
        const json_t *response, sft_example *x) {
    json_t *messages = json_copy(record->prompt);
    json_array_extend(messages, (json_t *)(uintptr_t)response);
    conversation c = {.f = f,
            .template = conversation_template(f, record->tools),
            .a = arena_new("pair"),
            .messages = messages,
            .tools = record->tools,
            .last = json_array_size(record->prompt)};
    drv_status status = conversation_render(&c, json_array_size(messages), false, &c.whole);
    if (status == DRV_OK) {
        status = find_response(&c, x);
        if (status == DRV_OK) status = conversation_encode(&c, e, x);
        str_free(&c.whole.text);
    }
    free(c.answers);
    arena_free(c.a);
    json_decref(messages);
    return status;
}

// --- texts
static drv_status add_text(const sft_format *f, encoder *e, const json_t *prompt,
        const json_t *response, sft_example *x) {
    conversation c = {.f = f};
    str_add(&c.whole.text, json_string_value(prompt), json_string_length(prompt));
    str_add(&c.whole.text, json_string_value(response), json_string_length(response));
    conversation_add(&c, json_string_length(prompt), c.whole.text.n, true);
    const drv_status status = conversation_encode(&c, e, x);
    str_free(&c.whole.text);
    free(c.answers);
    // As in TRL, a response that ends with the end-of-text token gets no second one.
    if (status != DRV_OK || x->ids.p[x->ids.n - 1] == f->eos) return status;
    id_list_add(&x->ids, f->eos);
    str_add(&x->roles, &(char){ROLE_LAST_ANSWER}, 1);
    return DRV_OK;
}

// --- the record
static drv_status add_side(const sft_format *f, encoder *e, const pair_record *r, bool rejected,
        sft_example *x) {
    if (!f->template)
        return add_text(f, e, r->prompt_text, rejected ? r->rejected_text : r->chosen_text, x);
    return add_response(f, e, r, rejected ? r->rejected : r->chosen, x);
}

static drv_status join_contents(const sft_format *f, const pair_record *r) {
    if (!f->template) return DRV_OK;
    const chat_template *template = conversation_template(f, r->tools);
    DRV_TRY(conversation_join_content(template, r->prompt));
    DRV_TRY(conversation_join_content(template, r->chosen));
    return conversation_join_content(template, r->rejected);
}

drv_status pair_encode(const sft_format *f, encoder *e, const char *line, size_t n,
        sft_example *x) {
    pair_record record;
    const int64_t before = x->ids.n;
    x->misfit = false;
    DRV_TRY(pair_record_read(line, n, !f->template, &record));
    if (record.parted) conversation_join_parts(f, record.prompt);
    drv_status status = join_contents(f, &record);
    if (status == DRV_OK) status = add_side(f, e, &record, false, x);
    x->n_chosen = x->ids.n - before;
    if (status == DRV_OK) status = add_side(f, e, &record, true, x);
    if (status != DRV_OK) { // nothing of a pair is left
        x->ids.n = before;
        if (x->roles.n > (size_t)before) x->roles.n = (size_t)before;
    }
    pair_record_free(&record);
    return status;
}
