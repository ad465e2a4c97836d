// Converts records of instruction data to tokens, and marks the tokens of answers. A chat template
// renders the whole conversation, and the result is tokenised as one text, as transformers'
// apply_chat_template does.
//
// A token belongs to an answer if it contains at least one byte of it. The {% generation %} blocks
// of the template say where an answer begins and ends, if it has them. Otherwise an answer is the
// text that an assistant's message adds: it begins at the end of the rendered messages before it,
// generation prompt included, and ends at the end of the text rendered with it. So the token that
// ends a turn is part of the answer. If a template renders an earlier turn differently from the
// last one (Qwen3's omits its thinking), each answer becomes a document of its own: the messages up
// to it, with the loss on this answer alone.
#pragma once
#include "base/arena.h"
#include "tok/tokenizer.h"

// The role of a token, as stored in PREFIX.roles (docs/formats.md).
typedef enum sft_role { ROLE_OTHER, ROLE_ANSWER, ROLE_LAST_ANSWER, N_SFT_ROLES } sft_role;

typedef struct sft_format sft_format; // template and special tokens; immutable, lives in the arena

// `folder`: the folder of the tokenizer `tok`, or its tokenizer.json. `name`: "chat" for the
// folder's own template, "alpaca" for the built-in one, else a file; NULL: chat. `date`: the date
// that templates read, such as 2026-11-22; NULL: today (chat_date), which is logged if a template
// reads it.
DRV_CHECKED drv_status sft_format_open(arena *a, const tokenizer *tok, const char *folder,
        const char *name, const char *date, const sft_format **out);
uint64_t sft_format_hash(const sft_format *f);    // of template and special tokens
const char *sft_format_name(const sft_format *f); // of the template, for messages
// Returns the source of a template that was given by name or file, in a form that can replace the
// folder's own template; NULL: the template is the folder's own, or there is none.
const char *sft_format_given(const sft_format *f);
// Returns the token with which an answer ends (turn_end.h); -1: none, or it cannot be determined.
int32_t sft_format_turn_end(const sft_format *f, const tokenizer *tok);

typedef struct sft_example { // single owner; the lists grow
    id_list ids;
    str roles;        // an sft_role for each id
    int64_t n_chosen; // for a preference pair (pair.h): tokens of its first document
    id_list inner; // ends of documents in `ids`, except the last one of each record; a record has
                   // several documents if each answer is one
    bool misfit;   // encoding failed because of the template, so it would fail for every record
} sft_example;
void sft_example_free(sft_example *x);

// Appends the documents of one line of JSON. The message of DRV_E_DATA says what is wrong but not
// in which line; *x is then unchanged except for `misfit`. Thread-safe, with an encoder for each
// thread.
DRV_CHECKED drv_status sft_encode(const sft_format *f, encoder *e, const char *line, size_t n,
        sft_example *x);
