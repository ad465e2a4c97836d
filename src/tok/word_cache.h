// Words that were seen -> their ids, so that a word is merged once. Words repeat: of English text
// 99 in 100 were there before. Short words share the table of the tokenizer; what does not fit
// there is kept by each thread for itself.
#pragma once
#include "tok/word_merge.h"
#include "tok/split.h"

typedef struct word_cache word_cache; // one for each thread
word_cache *word_cache_new(const tokenizer *t);
void word_cache_free(word_cache *c);

// Appends the ids of n words, at[i] to at[i + 1], of one text; `end`: of that text.
void word_cache_encode(word_cache *c, const unsigned char *const *at, int n,
        const unsigned char *end, id_list *out);
