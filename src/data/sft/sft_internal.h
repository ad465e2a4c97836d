// Renders and encodes a conversation, for instruction data (sft.c) and preference pairs (pair.c).
#pragma once
#include "base/json.h"
#include "chat/chat_model.h"
#include "data/sft/sft.h"

struct sft_format {
    const tokenizer *tokenizer;
    const chat_template *template;   // NULL: texts of pairs are used without a template
    const chat_template *with_tools; // for records that have tools; usually the same template
    const special_text *specials;
    int n_specials;
    struct tm now;
    uint64_t hash;     // of template and special tokens
    const char *given; // source of a template that is not the folder's own (sft_format_given)
    bool built_in; // reads "instruction" and "input"; the tokenizer adds BOS to its text, which a
                   // chat template writes itself
    int32_t eos;   // ends a response without a template
};

typedef struct answer { // bytes [begin, end) of the text
    size_t begin, end;
    bool last; // of the last message of the assistant, or of a pair's response
} answer;

typedef struct conversation { // a record that is being encoded
    const sft_format *f;
    const chat_template *template;
    arena *a;
    const json_t *messages, *tools;
    size_t last; // index of the assistant's last message; n_messages: there is none
    chat_output whole;
    answer *answers;
    int n, cap;
} conversation;

// Returns the template for a record with these tools (NULL: none).
const chat_template *conversation_template(const sft_format *f, const json_t *tools);
// Joins content that is a list of texts into one text, for templates that expect a text: they would
// print the list as Python does. DRV_E_DATA: a part is not text.
DRV_CHECKED drv_status conversation_join_content(const chat_template *template, json_t *messages);
void conversation_join_parts(const sft_format *f, json_t *messages);
void conversation_add(conversation *c, size_t begin, size_t end, bool last);
// Renders the text of the first n messages.
DRV_CHECKED drv_status conversation_render(const conversation *c, size_t n, bool prompt,
        chat_output *out);
// Finds the length of the text of the first n messages. The whole text must begin with this text;
// if it does not, x->misfit is set.
DRV_CHECKED drv_status conversation_front(conversation *c, size_t n, bool prompt, sft_example *x,
        size_t *out);
// Adds the {% generation %} blocks as answers; those from message c->last on are the last answer.
DRV_CHECKED drv_status conversation_marked(conversation *c);
// Appends the tokens of the whole text, and the role of each.
DRV_CHECKED drv_status conversation_encode(conversation *c, encoder *e, sft_example *x);
