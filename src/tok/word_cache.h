// Caches the ids of words, so that a word is merged once: in English text 99 of 100 words have been
// seen before. Short words share the table of the tokenizer; each thread keeps for itself the words
// that do not fit there.
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
