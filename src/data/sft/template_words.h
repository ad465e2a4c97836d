// Tells what a chat template writes that its tokenizer does not know.
#pragma once
#include "chat/chat_model.h"
#include "tok/tokenizer.h"

// Warns of markers such as <|im_start|> in the template that are not tokens, so that they are cut
// into pieces, and of bos_token and eos_token where no file says what they are, so that nothing is
// written for them. `t` NULL: the latter alone.
void template_tell_words(const tokenizer *t, const chat_model *model);
