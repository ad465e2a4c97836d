// Chat formats for a tokenizer that is trained from scratch: the special tokens that mark turns,
// and the chat template that writes them.
#pragma once
#include "chat/chat_template.h"

enum { MAX_CHAT_MARKERS = 4 };

typedef struct chat_form {
    const char *name;
    const char *template;
    const char *markers[MAX_CHAT_MARKERS]; // special tokens of the template, NULL after the last
    const char *turn_end;                  // the marker that ends a turn
    const char *bos, *eos;                 // begin and end a text; bos NULL: nothing begins it
} chat_form;

// Returns the form with a name; NULL: there is none.
const chat_form *chat_form_of(const char *name);
#define CHAT_FORM_NAMES "chatml or llama3"

typedef struct chat_form_ids { // -1: no such token
    int bos, eos, pad, turn_end;
} chat_form_ids;

// Writes chat_template.jinja and generation_config.json, whose eos_token_id lists the end of a text
// and the end of a turn, into an existing folder.
DRV_CHECKED drv_status chat_form_write(const chat_form *form, const chat_form_ids *ids,
        const char *folder);
