// Parses a line of JSON in any of the usual forms into a conversation.
#pragma once
#include "base/json.h"

typedef struct sft_record { // single owner
    json_t *messages;       // objects with "role" and "content"
    bool parted;   // the user's message also has "instruction" and "input", from which its content
                   // was made
    json_t *tools; // a list; NULL: none
} sft_record;

// Takes the first form whose fields fit:
//   messages: [{role, content}]              conversations: [{from, value}] (ShareGPT)
//   prompt (or query) and response, completion or answer    question and answer or response
//   instruction, perhaps input or context, and output, response or completion (Alpaca, dolly-15k)
// A prompt and its completion may be lists of messages too, both also as JSON in a text; messages
// of the prompt with which the completion begins are refused, where TRL has them twice. A "system"
// text becomes the first message; "messages", "conversations" and "tools" may also be JSON in a
// text, as in a column of CSV. The message of DRV_E_DATA says what is wrong but not in which line.
DRV_CHECKED drv_status sft_record_read(const char *line, size_t n, sft_record *out);
// The names of all fields that a record may have, ended by NULL.
extern const char *const sft_record_fields[];
void sft_record_free(sft_record *r);
