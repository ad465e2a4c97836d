// Finds special tokens that a chat template writes and its tokenizer does not have.
#pragma once
#include "chat/chat_model.h"
#include "tok/tokenizer.h"

// Warns of markers such as <|im_start|> in the template that are not tokens and would be split, and
// of bos_token and eos_token if no file defines them, so that the template renders them as nothing.
// `t` NULL: warns only of bos_token and eos_token.
void template_tell_words(const tokenizer *t, const chat_model *model);
