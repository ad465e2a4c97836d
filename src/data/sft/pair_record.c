// The forms of preference pairs.
#include "data/sft/pair_record.h"

#include <string.h>

#include "data/sft/sft_record_internal.h"

const char *const pair_record_fields[] = {"chosen", "rejected", "prompt", "query", "instruction",
        "question", "input", "context", "conversations", "system", "tools", "history", NULL};

static const char *const sides[] = {"chosen", "rejected", NULL};

void pair_record_free(pair_record *r) {
    json_decref(r->prompt);
    json_decref(r->chosen);
    json_decref(r->rejected);
    json_decref(r->tools);
    json_decref(r->prompt_text);
    json_decref(r->chosen_text);
    json_decref(r->rejected_text);
    *r = (pair_record){0};
}

static const json_t *side_of(const json_t *o, int side) {
    const json_t *x = json_object_get(o, sides[side]);
    return x && !json_is_null(x) ? x : NULL;
}

static drv_status check_sides(const json_t *o) {
    for (int side = 0; side < 2; side++)
        if (!side_of(o, side))
            return drv_fail(DRV_E_DATA, "no \"%s\", expected a pair: \"chosen\" and \"rejected\"",
                    sides[side]);
    return DRV_OK;
}

// --- texts that no template goes around
// Returns the length of the text that both begin with, less a space at its end, which belongs to
// the responses.
static size_t common_text(const json_t *chosen, const json_t *rejected) {
    const char *a = json_string_value(chosen), *b = json_string_value(rejected);
    const size_t n_a = json_string_length(chosen), n_b = json_string_length(rejected);
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    while (n > 0 && (a[n] & 0xC0) == 0x80) // within a character
        n--;
    return n > 0 && a[n - 1] == ' ' ? n - 1 : n;
}

static drv_status no_texts(const char *name) {
    return drv_fail(DRV_E_DATA,
            "\"%s\" is not a text, expected texts with --template none; messages go through a template",
            name);
}

static drv_status read_texts(pair_record *record, const json_t *object) {
    const json_t *prompt = json_object_get(object, "prompt");
    const json_t *text[2];
    for (int side = 0; side < 2; side++) {
        text[side] = side_of(object, side);
        if (!json_is_string(text[side])) return no_texts(sides[side]);
    }
    size_t n = 0;
    if (json_is_string(prompt))
        record->prompt_text = json_incref((json_t *)(uintptr_t)prompt);
    else if (prompt && !json_is_null(prompt))
        return no_texts("prompt");
    else
        record->prompt_text =
                json_stringn(json_string_value(text[0]), n = common_text(text[0], text[1]));
    if (json_string_length(record->prompt_text) == 0)
        return drv_fail(DRV_E_DATA,
                "no prompt: there is no \"prompt\", and \"chosen\" and \"rejected\" begin with nothing alike");
    for (int side = 0; side < 2; side++)
        if (json_string_length(text[side]) == n)
            return drv_fail(DRV_E_DATA, "\"%s\" is empty%s, expected a response", sides[side],
                    n ? " after the prompt" : "");
    json_t **const responses[] = {&record->chosen_text, &record->rejected_text};
    for (int side = 0; side < 2; side++)
        *responses[side] =
                json_stringn(json_string_value(text[side]) + n, json_string_length(text[side]) - n);
    return DRV_OK;
}

// --- messages
static drv_status add_side(json_t *messages, const json_t *side, const char *name) {
    if (json_is_string(side)) {
        record_add_message(messages, "assistant", json_incref((json_t *)(uintptr_t)side));
        return DRV_OK;
    }
    if (json_is_object(side)) {
        DRV_TRY_CTX(record_add(messages, (json_t *)(uintptr_t)side, 0), "\"%s\"", name);
        return DRV_OK;
    }
    if (!json_is_array(side))
        return drv_fail(DRV_E_DATA, "\"%s\" is neither a text nor messages", name);
    return record_add_list(messages, name, side);
}

// Reads the prompt from its own field, if there is one.
static drv_status add_prompt(pair_record *r, const json_t *o) {
    const json_t *turns = json_object_get(o, "conversations");
    if (json_array_size(turns)) return record_add_list(r->prompt, "conversations", turns);
    for (int i = 0; i < N_RECORD_FORMS; i++) {
        const char *names[2] = {0};
        const json_t *prompt = record_field(o, record_forms[i].prompt, &names[0]),
                     *input = record_field(o, record_forms[i].input, &names[1]);
        if (!prompt) continue;
        r->parted = json_is_string(prompt);
        if (r->parted) DRV_TRY(record_add_history(r->prompt, o));
        return record_add_prompt(r->prompt, prompt, names[0], input, names[1]);
    }
    return DRV_OK;
}

// Moves the messages that both sides begin with to the prompt; returns how many these are.
static size_t move_common(pair_record *r) {
    size_t n = 0;
    for (;; n++) {
        json_t *first = json_array_get(r->chosen, 0);
        if (!first || !json_equal(first, json_array_get(r->rejected, 0))) return n;
        json_array_append(r->prompt, first);
        json_array_remove(r->chosen, 0);
        json_array_remove(r->rejected, 0);
    }
}

// Returns whether the last message of a response says something.
static bool says_something(const json_t *messages) {
    const size_t n = json_array_size(messages);
    const json_t *last = n ? json_array_get(messages, n - 1) : NULL,
                 *content = json_object_get(last, "content");
    if (!last) return false;
    return !json_is_string(content) || json_string_length(content) > 0 ||
           json_object_get(last, "tool_calls");
}

static drv_status read_messages(pair_record *r, json_t *o) {
    static const char *const prompt[] = {"prompt", NULL}, *const turns[] = {"conversations", NULL};
    DRV_TRY(record_parse_texts(o, sides));
    DRV_TRY(record_parse_texts(o, prompt));
    DRV_TRY(record_parse_texts(o, turns));
    const json_t *chosen = side_of(o, 0), *rejected = side_of(o, 1);
    const bool lists = json_is_array(chosen) && json_is_array(rejected),
               beside = json_array_size(json_object_get(o, "prompt")) > 0 ||
                        json_array_size(json_object_get(o, "conversations")) > 0;
    r->prompt = json_array();
    r->chosen = json_array();
    r->rejected = json_array();
    DRV_TRY(record_tools(o, &r->tools));
    DRV_TRY(add_side(r->chosen, chosen, sides[0]));
    DRV_TRY(add_side(r->rejected, rejected, sides[1]));
    DRV_TRY(record_add_system(r->prompt, o));
    if (lists && !beside && move_common(r) > 0) return DRV_OK;
    return add_prompt(r, o);
}

static drv_status check_messages(const pair_record *record, const json_t *object) {
    const json_t *const lists[] = {record->chosen, record->rejected};
    const bool asks = record_after_system(record->prompt) < json_array_size(record->prompt),
               texts = json_is_string(side_of(object, 0));
    if (asks && json_array_size(record->chosen) == 0 && json_array_size(record->rejected) == 0)
        return drv_fail(DRV_E_DATA,
                "\"chosen\" and \"rejected\" are the same conversation, expected two responses to a prompt");
    for (int side = 0; side < 2; side++)
        if (!says_something(lists[side]))
            return drv_fail(DRV_E_DATA, "\"%s\" is empty, expected a response", sides[side]);
    for (int side = 0; side < 2; side++)
        if (record_repeats(record->prompt, lists[side])) return record_said_twice(sides[side]);
    if (asks) return DRV_OK;
    if (texts)
        return drv_fail(DRV_E_DATA,
                "no prompt, expected \"prompt\" beside \"chosen\" and \"rejected\"; for texts that begin with it: "
                "--template none");
    return drv_fail(DRV_E_DATA,
            "no prompt: there is no \"prompt\", and \"chosen\" and \"rejected\" have no first message alike");
}

drv_status pair_record_read(const char *line, size_t n, bool texts, pair_record *out) {
    json_t *o;
    *out = (pair_record){0};
    DRV_TRY(json_parse(line, n, &o));
    drv_status status = json_is_object(o) ? check_sides(o) : drv_fail(DRV_E_DATA, "no JSON object");
    if (status == DRV_OK && texts)
        status = read_texts(out, o);
    else if (status == DRV_OK) {
        status = read_messages(out, o);
        if (status == DRV_OK) status = check_messages(out, o);
    }
    json_decref(o);
    if (status != DRV_OK) pair_record_free(out);
    return status;
}
