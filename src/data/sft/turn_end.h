// Finds the token with which a chat template ends a turn of the assistant.
#pragma once
#include "chat/chat_template.h"
#include "tok/tokenizer.h"

// Returns the last added token that the template writes after the text of an answer, whether or not
// another message follows, such as <|im_end|>; -1: there is none. *text (may be NULL): the whole
// text that the template writes there, stripped of white space, in `a`; "": none.
int32_t turn_end(arena *a, const chat_template *template, const special_text *specials,
        int n_specials, const tokenizer *tok, const char **text);
