// A line of JSON -> a conversation, whichever of the usual forms it has.
#pragma once
#include "base/json.h"

typedef struct sft_record { // single owner
    json_t *messages;       // objects with "role" and "content"
    bool parted; // the user's has "instruction" and "input" too, of which content was put together
    json_t *tools; // a list; NULL: none
} sft_record;

// The first form that fits by its fields:
//   messages: [{role, content}]              conversations: [{from, value}] (ShareGPT)
//   prompt (or query) and response, completion or answer    question and answer or response
//   instruction, perhaps input or context, and output, response or completion (Alpaca, dolly-15k)
// A prompt and its completion may be lists of messages too. A "system" text becomes the first
// message; "tools" is a list, or the text of one. DRV_E_DATA: what is wrong, without a place.
DRV_CHECKED drv_status sft_record_read(const char *line, size_t n, sft_record *out);
// The names of all fields that may be in a record, NULL at the end.
extern const char *const sft_record_fields[];
void sft_record_free(sft_record *r);
