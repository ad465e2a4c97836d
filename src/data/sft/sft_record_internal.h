// Functions that the parsers of instruction data (sft_record.c) and of preference pairs
// (pair_record.c) share. They append to a list of messages. The message of DRV_E_DATA says what is
// wrong but not in which line.
#pragma once
#include "data/sft/sft_record.h"

// Alternative names of one field, ended by NULL; the first one that is present is used.
enum { MAX_NAMES = 5, N_RECORD_FORMS = 3 };
typedef struct record_form {
    const char *prompt[MAX_NAMES], *input[MAX_NAMES], *answer[MAX_NAMES];
} record_form;
extern const record_form record_forms[N_RECORD_FORMS];

// Returns a borrowed reference to the field of an object and sets *name to the name under which it
// was found; NULL: the object has none of them.
json_t *record_field(const json_t *o, const char *const names[MAX_NAMES], const char **name);
// Steals the reference to `content`.
void record_add_message(json_t *messages, const char *role, json_t *content);
// Appends message i of a list: an object with "role", unchanged unless the role is a speaker of
// ShareGPT, or one with "from" and "value".
DRV_CHECKED drv_status record_add(json_t *messages, json_t *message, size_t i);
// Appends the messages of the list in the field `name`.
DRV_CHECKED drv_status record_add_list(json_t *messages, const char *name, const json_t *list);
// Replaces the fields of these names, ended by NULL, by the messages that their texts are in JSON,
// as columns of CSV have them, unless one of the texts is anything else: a response may be any
// JSON. DRV_E_DATA: all of them are lists of messages as Python prints them.
DRV_CHECKED drv_status record_parse_texts(json_t *o, const char *const *names);
// Appends a text of the user, joined with `input` if that is not NULL, or a list of messages.
DRV_CHECKED drv_status record_add_prompt(json_t *messages, const json_t *prompt, const char *name,
        const json_t *input, const char *input_name);
// Appends the earlier turns of Alpaca's records in the field "history", if it is a list or JSON of
// one: each is [what the user said, what the assistant said], or a message.
DRV_CHECKED drv_status record_add_history(json_t *messages, const json_t *o);
// Returns the index of the first message that is not the system's.
size_t record_after_system(const json_t *messages);
// Returns whether a response begins with the last messages of its prompt, or all of them.
bool record_repeats(const json_t *prompt, const json_t *response);
// Returns the error for such a response in the field `name`.
drv_status record_said_twice(const char *name);
// Appends the message in the field "system" of a record, if there is one.
DRV_CHECKED drv_status record_add_system(json_t *messages, const json_t *o);
// Reads the field "tools"; the caller owns *out, which stays unchanged if there is none.
DRV_CHECKED drv_status record_tools(const json_t *o, json_t **out);
