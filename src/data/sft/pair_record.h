// A line of JSON -> a prompt and two responses to it, of which the first is preferred.
#pragma once
#include "base/json.h"

typedef struct pair_record { // single owner
    // Lists of messages. The prompt may be empty where nothing was in front of the responses.
    json_t *prompt, *chosen, *rejected;
    json_t *tools; // a list; NULL: none
    // Texts as they are, without messages (opts.texts); NULL: there are messages.
    json_t *prompt_text, *chosen_text, *rejected_text;
    bool parted; // as sft_record's
} pair_record;

// The first form that fits. `chosen` and `rejected` are
//   lists of messages: [{role, content}], or a message, also of ShareGPT's {from, value}
//   texts: the messages of an assistant
// each beside a prompt: `prompt` (or query), `instruction` with perhaps `input`, `question`, a text
// of the user or a list of messages; or `conversations`; with `system` and `tools` as in
// sft_record.h. Lists that begin alike have their prompt within: the messages that both begin with,
// as TRL's extract_prompt has it; a prompt that is a text beside them says the same again and is
// left out. `texts`: chosen, rejected and prompt are texts that no template goes around; without a
// prompt it is what both begin with, up to a space that stands before the first difference.
// DRV_E_DATA: what is wrong, without a place.
DRV_CHECKED drv_status pair_record_read(const char *line, size_t n, bool texts, pair_record *out);
// The names of all fields that may be in a record, NULL at the end.
extern const char *const pair_record_fields[];
void pair_record_free(pair_record *r);
