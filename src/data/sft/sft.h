// Records of instruction data -> tokens, and which of them are answers. The text is that of a chat
// template, the tokens are those of the whole text: the same as transformers' apply_chat_template
// gives.
//
// Tokens of an answer are those that hold a byte of it; one that reaches across the border counts.
// The {% generation %} blocks of the template say where an answer begins and ends, if it has them.
// Otherwise an answer is what an assistant's message adds: from the end of the text of the messages
// before it, with the generation prompt, to the end of the text with it. So the token that ends a
// turn is part of the answer. If a template writes an earlier turn differently from the last one
// (Qwen3's omits its thinking), each answer becomes a document of its own: the messages up to it,
// of which only the answer is learned.
#pragma once
#include "base/arena.h"
#include "tok/tokenizer.h"

// The role of a token, as PREFIX.roles has it (docs/formats.md).
typedef enum sft_role { ROLE_OTHER, ROLE_ANSWER, ROLE_LAST_ANSWER, N_SFT_ROLES } sft_role;

typedef struct sft_format sft_format; // template and special tokens; immutable, lives in the arena

// `folder`: of the tokenizer `tok`, or its tokenizer.json. `name`: "chat" for the folder's own
// template, "alpaca" for the built-in one, else a file; NULL: chat. `date`: what templates are told
// when they ask for it, as 2026-11-22; NULL: today's (chat_date), which is then logged.
DRV_CHECKED drv_status sft_format_open(arena *a, const tokenizer *tok, const char *folder,
        const char *name, const char *date, const sft_format **out);
uint64_t sft_format_hash(const sft_format *f);    // of template and special tokens
const char *sft_format_name(const sft_format *f); // of the template, for messages
// Returns the source of a template that was given by name or file, as a folder's own would have to
// be to write the same text; NULL: it is the folder's own, or there is none.
const char *sft_format_given(const sft_format *f);
// Returns the token with which an answer ends (turn_end.h); -1: none, or it cannot be told.
int32_t sft_format_turn_end(const sft_format *f, const tokenizer *tok);

typedef struct sft_example { // single owner; the lists grow
    id_list ids;
    str roles;        // an sft_role for each id
    int64_t n_chosen; // of a preference pair (pair.h): tokens of its first document
    id_list inner;    // ends of documents in `ids` but the last one of each record, which has
                      // several where it is learned turn by turn
    bool misfit;      // it failed because the template does not fit, so every record would fail
} sft_example;
void sft_example_free(sft_example *x);

// Appends the documents of one line of JSON. DRV_E_DATA: why it has none, without a place; *x is
// then unchanged except for `misfit`. Thread-safe, with an encoder for each thread.
DRV_CHECKED drv_status sft_encode(const sft_format *f, encoder *e, const char *line, size_t n,
        sft_example *x);
