// Parses a line of JSON into a prompt, the preferred response to it and the rejected one.
#pragma once
#include "base/json.h"

typedef struct pair_record { // single owner
    // Lists of messages. The prompt may be empty, if nothing precedes the responses.
    json_t *prompt, *chosen, *rejected;
    json_t *tools; // a list; NULL: none
    // Texts without a template (`texts`); NULL: the record is made of messages.
    json_t *prompt_text, *chosen_text, *rejected_text;
    bool parted; // as in sft_record
} pair_record;

// Takes the first form that fits. `chosen` and `rejected` are either
//   lists of messages [{role, content}], or one message; also ShareGPT's {from, value}; or
//   texts, which are messages of the assistant, unless both are such messages in JSON.
// The prompt is a text of the user or a list of messages: `prompt` (or query), `question`,
// `instruction` with or without `input`, or `conversations`, each also as JSON in a text; `system`
// and `tools` are as in sft_record.h. If both lists begin with the same messages, these are the
// prompt, as in TRL's extract_prompt; a prompt given as a text is then ignored, since it repeats
// them. Messages of a prompt with which a response begins are refused, where TRL has them twice.
// `texts`: chosen, rejected and prompt are used without a template; without a prompt field the
// prompt is the common beginning of both, without a space at its end.
// The message of DRV_E_DATA says what is wrong but not in which line.
DRV_CHECKED drv_status pair_record_read(const char *line, size_t n, bool texts, pair_record *out);
// The names of all fields that a record may have, ended by NULL.
extern const char *const pair_record_fields[];
void pair_record_free(pair_record *r);
