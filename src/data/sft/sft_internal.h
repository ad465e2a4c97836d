// A conversation as text, tokens and marks: what instruction data (sft.c) and preference pairs
// (pair.c) share.
#pragma once
#include "base/json.h"
#include "chat/chat_model.h"
#include "data/sft/sft.h"

struct sft_format {
    const tokenizer *tokenizer;
    const chat_template *template;   // NULL: texts of pairs, around which there is none
    const chat_template *with_tools; // of records that have tools; mostly the same one
    const special_text *specials;
    int n_specials;
    struct tm now;
    uint64_t hash;     // of template and special tokens
    const char *given; // source of a template that is not the folder's own (sft_format_given)
    bool built_in; // knows "instruction" and "input"; its text gets the tokenizer's BOS, which a
                   // chat template writes itself
    int32_t eos;   // of texts: what ends a response
};

typedef struct answer { // bytes [begin, end) of the text
    size_t begin, end;
    bool last; // of the last message of the assistant, or of a pair's response
} answer;

typedef struct conversation { // a record at work
    const sft_format *f;
    const chat_template *template;
    arena *a;
    const json_t *messages, *tools;
    size_t last; // number of the assistant's last message; n_messages: there is none
    chat_output whole;
    answer *answers;
    int n, cap;
} conversation;

// The template of a record with these tools (NULL: none).
const chat_template *conversation_template(const sft_format *f, const json_t *tools);
// Makes texts of content that is a list of texts, for a template that takes content for a text: it
// would print the list as Python does. DRV_E_DATA: a part is not text.
DRV_CHECKED drv_status conversation_join_content(const chat_template *template, json_t *messages);
void conversation_join_parts(const sft_format *f, json_t *messages);
void conversation_add(conversation *c, size_t begin, size_t end, bool last);
// Renders the text of the first n messages.
DRV_CHECKED drv_status conversation_render(const conversation *c, size_t n, bool prompt,
        chat_output *out);
// Finds the length of the text of the first n messages, which the whole text must begin with; if it
// does not, x->misfit is set.
DRV_CHECKED drv_status conversation_front(conversation *c, size_t n, bool prompt, sft_example *x,
        size_t *out);
// Adds the blocks that the template marked; those from message c->last on are the last ones.
DRV_CHECKED drv_status conversation_marked(conversation *c);
// Appends the tokens of the whole text, and the role of each by the answers.
DRV_CHECKED drv_status conversation_encode(conversation *c, encoder *e, sft_example *x);
