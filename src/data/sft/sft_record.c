// The forms of instruction data, by a table of their fields.
#include "data/sft/sft_record_internal.h"

#include <string.h>

#include "base/str.h"

const record_form record_forms[N_RECORD_FORMS] = {
        {{"instruction"}, {"input", "context"}, {"output", "response", "completion"}},
        {{"prompt", "query"}, {0}, {"response", "completion", "answer"}},
        {{"question"}, {0}, {"answer", "response"}},
};

static const char *const list_names[] = {"messages", "conversations"};

const char *const sft_record_fields[] = {"messages", "conversations", "prompt", "query",
        "instruction", "question", "input", "context", "output", "response", "completion", "answer",
        "system", "tools", "history", NULL};

void sft_record_free(sft_record *r) {
    json_decref(r->messages);
    json_decref(r->tools);
    *r = (sft_record){0};
}

json_t *record_field(const json_t *o, const char *const names[MAX_NAMES], const char **name) {
    for (int i = 0; i < MAX_NAMES && names[i]; i++) {
        json_t *v = json_object_get(o, names[i]);
        if (!v || json_is_null(v)) continue;
        *name = names[i];
        return v;
    }
    return NULL;
}

void record_add_message(json_t *messages, const char *role, json_t *content) {
    json_t *message = json_object();
    json_object_set_new(message, "role", json_string(role));
    json_object_set_new(message, "content", content);
    json_array_append_new(messages, message);
}

// --- messages
// ShareGPT's speakers. The first N_SPEAKERS of them are also read as roles; the others may be roles
// that a template has itself.
enum { N_SPEAKERS = 5 };
static const struct {
    const char *from, *role;
} speakers[] = {{"human", "user"}, {"gpt", "assistant"}, {"chatgpt", "assistant"},
        {"bing", "assistant"}, {"bard", "assistant"}, {"user", "user"}, {"assistant", "assistant"},
        {"model", "assistant"}, {"system", "system"}, {"tool", "tool"}, {"observation", "tool"},
        {"function", "tool"}, {"function_response", "tool"}};

// Returns the role of a speaker, one of the first n of the table; NULL: it is none of them.
static const char *role_of(const char *from, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(speakers[i].from, from) == 0) return speakers[i].role;
    return NULL;
}

static void add_role(json_t *messages, json_t *message, const char *name) {
    const char *role = role_of(name, N_SPEAKERS);
    json_t *added = role ? json_copy(message) : json_incref(message);
    if (role) json_object_set_new(added, "role", json_string(role));
    json_array_append_new(messages, added);
}

// Adds what a speaker says, with the member by which sft.c decides whether it is learned.
static void add_speech(json_t *messages, const json_t *turn, const char *role) {
    static const char *const kept[] = {"weight", "train"};
    record_add_message(messages, role, json_incref(json_object_get(turn, "value")));
    json_t *message = json_array_get(messages, json_array_size(messages) - 1);
    for (int i = 0; i < 2; i++) {
        json_t *value = json_object_get(turn, kept[i]);
        if (value) json_object_set(message, kept[i], value);
    }
}

drv_status record_add(json_t *messages, json_t *message, size_t i) {
    const char *name = json_string_value(json_object_get(message, "role")),
               *from = json_string_value(json_object_get(message, "from"));
    if (!json_is_object(message)) return drv_fail(DRV_E_DATA, "message %zu is not an object", i);
    if (name) {
        add_role(messages, message, name);
        return DRV_OK;
    }
    if (!from)
        return drv_fail(DRV_E_DATA, "message %zu has no \"role\", nor \"from\" and \"value\"", i);
    if (!json_is_string(json_object_get(message, "value")))
        return drv_fail(DRV_E_DATA, "message %zu has no \"value\" beside \"from\"", i);
    const char *role = role_of(from, sizeof speakers / sizeof *speakers);
    if (!role)
        return drv_fail(DRV_E_DATA,
                "message %zu is from \"%.40s\", expected human, gpt, system or tool", i, from);
    add_speech(messages, message, role);
    return DRV_OK;
}

drv_status record_add_list(json_t *messages, const char *name, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++)
        DRV_TRY_CTX(record_add(messages, json_array_get(list, i), i), "\"%s\"", name);
    return DRV_OK;
}

// --- messages that are JSON in a text
static bool is_message(const json_t *o) {
    if (json_is_string(json_object_get(o, "from")))
        return json_is_string(json_object_get(o, "value"));
    return json_is_string(json_object_get(o, "role")) &&
           (json_object_get(o, "content") || json_object_get(o, "tool_calls"));
}

// Returns whether it is a message, or a list of nothing but messages.
static bool are_messages(const json_t *value) {
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!is_message(json_array_get(value, i))) return false;
    return json_array_size(value) > 0 || is_message(value);
}

// Returns the messages that a text is in JSON, which the caller owns; NULL: it is anything else.
static json_t *messages_in(const char *text, size_t n) {
    json_t *value = NULL;
    const char first = text[strspn(text, " \t\r\n")];
    if (first != '[' && first != '{') return NULL;
    if (json_parse(text, n, &value) == DRV_OK && are_messages(value)) return value;
    json_decref(value);
    return NULL;
}

static bool is_printed_by_python(const char *text) {
    static const char *const begins[] = {"[{'role':", "[{'content':", "[{'from':", "[{'value':"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (str_starts(text, begins[i])) return true;
    return false;
}

drv_status record_parse_texts(json_t *o, const char *const *names) {
    bool printed = true, parsed = true;
    const char *first = NULL;
    json_t *found = json_object();
    for (int i = 0; names[i]; i++) {
        const json_t *field = json_object_get(o, names[i]);
        if (!json_is_string(field)) continue;
        const char *text = json_string_value(field);
        json_t *messages = messages_in(text, json_string_length(field));
        if (!first) first = names[i];
        printed &= is_printed_by_python(text);
        parsed &= messages != NULL;
        if (messages) json_object_set_new(found, names[i], messages);
    }
    if (parsed) json_object_update(o, found);
    json_decref(found);
    if (!first || !printed) return DRV_OK;
    return drv_fail(DRV_E_DATA, "\"%s\" is a list of messages as Python prints it, expected JSON",
            first);
}

// --- a prompt and its answer
// Instruction and input are one message, with an empty line between them; templates that know the
// parts find them.
drv_status record_add_prompt(json_t *messages, const json_t *prompt, const char *name,
        const json_t *input, const char *input_name) {
    if (json_is_array(prompt)) return record_add_list(messages, name, prompt);
    if (!json_is_string(prompt)) return drv_fail(DRV_E_DATA, "\"%s\" is not a string", name);
    if (input && !json_is_string(input))
        return drv_fail(DRV_E_DATA, "\"%s\" is not a string", input_name);
    str both = {0};
    str_add(&both, json_string_value(prompt), json_string_length(prompt));
    if (json_string_length(input)) {
        str_puts(&both, "\n\n");
        str_add(&both, json_string_value(input), json_string_length(input));
    }
    record_add_message(messages, "user", json_stringn(both.p ? both.p : "", both.n));
    str_free(&both);
    json_t *message = json_array_get(messages, json_array_size(messages) - 1);
    json_object_set(message, "instruction", (json_t *)(uintptr_t)prompt);
    json_object_set_new(message, "input",
            json_stringn(input ? json_string_value(input) : "", json_string_length(input)));
    return DRV_OK;
}

// Returns the list in the field `name`, which the caller owns. It may be given as JSON in a text,
// since tables such as CSV have no lists. NULL: the field is not a list.
static json_t *read_list(const json_t *o, const char *name) {
    json_t *field = json_object_get(o, name), *list = NULL;
    if (json_is_array(field)) return json_incref(field);
    if (json_is_string(field) &&
            json_parse(json_string_value(field), json_string_length(field), &list) == DRV_OK &&
            json_is_array(list))
        return list;
    json_decref(list);
    return NULL;
}

// Appends what the user and the assistant said in a turn of the history; false: it is no such list.
static bool add_turn(json_t *messages, const json_t *turn) {
    json_t *user = json_array_get(turn, 0), *assistant = json_array_get(turn, 1);
    if (json_array_size(turn) != 2 || !json_is_string(user) || !json_is_string(assistant))
        return false;
    record_add_message(messages, "user", json_incref(user));
    record_add_message(messages, "assistant", json_incref(assistant));
    return true;
}

static drv_status add_turns(json_t *messages, const json_t *history) {
    for (size_t i = 0; i < json_array_size(history); i++) {
        json_t *turn = json_array_get(history, i);
        if (add_turn(messages, turn)) continue;
        if (!json_is_object(turn))
            return drv_fail(DRV_E_DATA,
                    "\"history\": turn %zu is neither a message nor a list of two texts", i);
        DRV_TRY_CTX(record_add(messages, turn, i), "\"history\"");
    }
    return DRV_OK;
}

drv_status record_add_history(json_t *messages, const json_t *o) {
    json_t *history = read_list(o, "history");
    const drv_status status = add_turns(messages, history);
    json_decref(history);
    return status;
}

size_t record_after_system(const json_t *messages) {
    size_t i = 0;
    for (; i < json_array_size(messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
        if (!role || strcmp(role, "system") != 0) break;
    }
    return i;
}

// Returns whether two messages say the same; a prompt that was a text has members beside these.
static bool are_alike(const json_t *a, const json_t *b) {
    static const char *const members[] = {"role", "content", "tool_calls"};
    for (int i = 0; i < 3; i++) {
        const json_t *x = json_object_get(a, members[i]), *y = json_object_get(b, members[i]);
        if (x != y && !json_equal(x, y)) return false;
    }
    return true;
}

// Returns whether the last n messages of the prompt are those of the response from `begin` on.
static bool ends_with(const json_t *prompt, size_t n, const json_t *response, size_t begin) {
    for (size_t i = 0; i < n; i++)
        if (!are_alike(json_array_get(prompt, json_array_size(prompt) - n + i),
                    json_array_get(response, begin + i)))
            return false;
    return true;
}

bool record_repeats(const json_t *prompt, const json_t *response) {
    const size_t begin = record_after_system(response), n_prompt = json_array_size(prompt),
                 n_response = json_array_size(response);
    for (size_t n = 1; n <= n_prompt && begin + n <= n_response; n++)
        if (ends_with(prompt, n, response, begin)) return true;
    return false;
}

drv_status record_said_twice(const char *name) {
    return drv_fail(DRV_E_DATA,
            "\"%s\" begins with messages of the prompt, which would be there twice, expected them in one of the two fields",
            name);
}

static drv_status add_answer(json_t *messages, const json_t *answer, const char *name) {
    if (json_is_array(answer)) return record_add_list(messages, name, answer);
    if (!json_is_string(answer)) return drv_fail(DRV_E_DATA, "\"%s\" is not a string", name);
    record_add_message(messages, "assistant", json_incref((json_t *)(uintptr_t)answer));
    return DRV_OK;
}

static drv_status add_pair(json_t *messages, const json_t *object) {
    for (int i = 0; i < N_RECORD_FORMS; i++) {
        const char *names[3] = {0};
        const json_t *prompt = record_field(object, record_forms[i].prompt, &names[0]),
                     *input = record_field(object, record_forms[i].input, &names[1]),
                     *answer = record_field(object, record_forms[i].answer, &names[2]);
        if (!prompt) continue;
        if (!answer)
            return drv_fail(DRV_E_DATA,
                    "\"%s\" has no answer in the same record, expected \"%s\" or \"%s\"", names[0],
                    record_forms[i].answer[0], record_forms[i].answer[1]);
        if (json_is_string(prompt)) DRV_TRY(record_add_history(messages, object));
        DRV_TRY(record_add_prompt(messages, prompt, names[0], input, names[1]));
        json_t *said = json_array();
        drv_status status = add_answer(said, answer, names[2]);
        if (status == DRV_OK && json_is_array(answer) && record_repeats(messages, said))
            status = record_said_twice(names[2]);
        if (status == DRV_OK) json_array_extend(messages, said);
        json_decref(said);
        return status;
    }
    for (int i = 0; i < 2; i++)
        if (json_is_string(json_object_get(object, list_names[i])))
            return drv_fail(DRV_E_DATA,
                    "\"%s\" is a text, expected a list of messages, or JSON of one", list_names[i]);
    return drv_fail(DRV_E_DATA,
            "unknown form, expected messages, conversations, prompt and response, or instruction and output");
}

// --- the record
drv_status record_add_system(json_t *messages, const json_t *o) {
    json_t *system = json_object_get(o, "system");
    if (!system || json_is_null(system)) return DRV_OK;
    if (!json_is_string(system)) return drv_fail(DRV_E_DATA, "\"system\" is not a string");
    if (json_string_length(system)) record_add_message(messages, "system", json_incref(system));
    return DRV_OK;
}

drv_status record_tools(const json_t *o, json_t **out) {
    const json_t *tools = json_object_get(o, "tools");
    if (!tools || json_is_null(tools)) return DRV_OK;
    *out = read_list(o, "tools");
    return *out ? DRV_OK : drv_fail(DRV_E_DATA, "\"tools\" is not a list");
}

static drv_status add_all(sft_record *r, json_t *o) {
    if (!json_is_object(o)) return drv_fail(DRV_E_DATA, "no JSON object");
    DRV_TRY(record_tools(o, &r->tools));
    for (int i = 0; i < 2; i++) {
        json_t *list = read_list(o, list_names[i]);
        if (i == 0 && !list) DRV_TRY(record_add_system(r->messages, o));
        if (!list) continue;
        const drv_status status = record_add_list(r->messages, list_names[i], list);
        json_decref(list);
        return status;
    }
    static const char *const sides[] = {"prompt", "completion", NULL};
    DRV_TRY(record_parse_texts(o, sides));
    r->parted = true;
    return add_pair(r->messages, o);
}

drv_status sft_record_read(const char *line, size_t n, sft_record *out) {
    json_t *o;
    *out = (sft_record){0};
    DRV_TRY(json_parse(line, n, &o));
    out->messages = json_array();
    drv_status status = add_all(out, o);
    if (status == DRV_OK && json_array_size(out->messages) == 0)
        status = drv_fail(DRV_E_DATA, "the conversation is empty");
    json_decref(o);
    if (status != DRV_OK) sft_record_free(out);
    return status;
}
