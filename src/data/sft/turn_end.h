// The end that a chat template writes to a turn of the assistant.
#pragma once
#include "chat/chat_template.h"
#include "tok/tokenizer.h"

// Returns the last added token of what the template writes after the text of an answer, whether
// another message follows or not, as <|im_end|>; -1: it writes none there. *text (NULL: not
// wanted): all of that without white space around it, in `a`; "": nothing.
int32_t turn_end(arena *a, const chat_template *template, const special_text *specials,
        int n_specials, const tokenizer *tok, const char **text);
