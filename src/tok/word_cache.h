// Words seen so far -> their ids, so that a word is merged once. Words repeat: in English text 99 of
// 100 have been seen before. Short words share the table of the tokenizer; what does not fit
// there is kept by each thread for itself.
#pragma once
#include "tok/word_merge.h"
#include "tok/split.h"

typedef struct word_cache word_cache; // one for each thread
word_cache *word_cache_new(const tokenizer *t);
void word_cache_free(word_cache *c);

// Appends the ids of n_words words of one text, bounds[i] to bounds[i + 1]; `end` is the end of
// that text.
void word_cache_encode(word_cache *cache, const unsigned char *const *bounds, int n_words,
        const unsigned char *end, id_list *out);
