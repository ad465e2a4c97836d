// A conversation with a model: turns, rendered by the model's chat template, and its answers.
#pragma once
#include "chat/chat_model.h"
#include "infer/generate.h"

typedef struct conversation_opts {
    generator *generator; // loaded
    generate_opts answer; // max_tokens 0: as many as the context leaves
    const chat_model *model;
    const json_t *tools, *documents; // that the template sees; NULL: none
    const char *date;                // and this date (chat_date); NULL: today's
} conversation_opts;

typedef struct conversation conversation; // single owner

// Opens a conversation, which lives in `a`; the objects in `opts` must outlive it. The generator
// then stops at the token that ends an answer in the template. DRV_E_DATA: that is malformed.
DRV_CHECKED drv_status conversation_open(arena *a, const conversation_opts *opts,
        conversation **out);
void conversation_close(conversation *c); // NULL is allowed

// Sets the system message from now on; "": none.
void conversation_set_system(conversation *c, const char *text);
// Forgets the turns; the system message stays.
void conversation_reset(conversation *c);

typedef struct conversation_turn {
    generate_end end;
    int64_t n_dropped; // oldest questions, each with its answer, for which there was no room
} conversation_turn;

// Answers a message, and adds both to the turns; an interrupted answer is kept as far as it goes.
// If the context cannot hold all turns and the answer (max_tokens, at most a quarter of the
// context), the oldest turns are dropped for good. A failure leaves the turns unchanged.
// DRV_STOPPED: interrupted before the answer began. DRV_E_DATA: the template refuses the
// conversation, or the message alone is longer than the context.
DRV_CHECKED drv_status conversation_say(conversation *c, const char *text, size_t n,
        conversation_turn *out);
