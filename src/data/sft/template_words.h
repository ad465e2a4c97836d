// Finds the words that a chat template writes and its tokenizer does not know.
#pragma once
#include "chat/chat_model.h"
#include "tok/tokenizer.h"

// Warns of markers such as <|im_start|> in the template that are not tokens, so that they are cut
// into pieces, and of bos_token and eos_token if no file defines them, so that the template writes
// nothing for them. `t` NULL: warns of these two only.
void template_tell_words(const tokenizer *t, const chat_model *model);
