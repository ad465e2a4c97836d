// The forms of instruction data (sft_record.c) and of preference pairs (pair_record.c) share these
// functions. Each appends to a list of messages; DRV_E_DATA says what is wrong, without a place.
#pragma once
#include "data/sft/sft_record.h"

// Names of one field, the first that is there counts; NULL ends the list.
enum { MAX_NAMES = 5, N_RECORD_FORMS = 3 };
typedef struct record_form {
    const char *prompt[MAX_NAMES], *input[MAX_NAMES], *answer[MAX_NAMES];
} record_form;
extern const record_form record_forms[N_RECORD_FORMS];

// Returns the field of an object, borrowed, and the name that it has; NULL: none of them is there.
json_t *record_field(const json_t *o, const char *const names[MAX_NAMES], const char **name);
// Takes over `content`.
void record_add_message(json_t *messages, const char *role, json_t *content);
// Appends the messages of the list in the field `name`, unchanged.
DRV_CHECKED drv_status record_add_list(json_t *messages, const char *name, const json_t *list);
// Turn i of a conversation: from and value, or a message.
DRV_CHECKED drv_status record_add_speech(json_t *messages, const json_t *turn, size_t i);
// Adds a text of the user, with more text or without (input NULL), or a list of messages.
DRV_CHECKED drv_status record_add_prompt(json_t *messages, const json_t *prompt, const char *name,
        const json_t *input, const char *input_name);
// Adds the field "system" of a record, if it is there.
DRV_CHECKED drv_status record_add_system(json_t *messages, const json_t *o);
// Takes its field "tools", which the caller owns; *out stays as it is where there is none.
DRV_CHECKED drv_status record_tools(const json_t *o, json_t **out);
