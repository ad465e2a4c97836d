// llama.cpp's names of pre-tokenizers (tokenizer.ggml.pre) and their meaning in tokenizer.json.
#pragma once
#include "tok/bpe_files.h"

enum { N_OTHERS = 11 };

typedef struct pre_type {
    const char *name; // the one that is written
    bpe_words words;
    bool ignore_merges;           // a word in the vocabulary is one token, without merging
    bool add_bos;                 // if tokenizer.ggml.add_bos_token is absent
    const char *others[N_OTHERS]; // names with the same meaning
} pre_type;

// Returns a type by name; a missing name and "default" mean GPT-2's. NULL: not known.
const pre_type *pre_type_of(const char *name);
// Returns the known names, separated by ", ".
const char *pre_type_names(void);
// Returns the type that equals a tokenizer.json's; NULL: there is none.
const pre_type *pre_type_of_json(const json_t *pre_tokenizer, bool ignore_merges);
