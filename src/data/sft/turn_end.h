// The token with which a chat template ends a turn of the assistant.
#pragma once
#include "chat/chat_template.h"
#include "tok/tokenizer.h"

// Returns the last added token of what the template writes after the text of an answer, whether
// another message follows or not, as <|im_end|>; -1: it writes none there.
int32_t turn_end(const chat_template *template, const special_text *specials, int n_specials,
        const tokenizer *tok);
