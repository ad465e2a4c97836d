// llama.cpp's names of pre-tokenizers (tokenizer.ggml.pre) and what they mean in tokenizer.json.
#pragma once
#include "base/json.h"

typedef struct pre_type {
    const char *name;
    const char *pattern; // of a Split; NULL: GPT-2's, which ByteLevel has built in
    bool digits;         // every digit is a word of its own, before the rest
    bool ignore_merges;  // a word that is in the vocabulary is not merged
    bool add_bos;        // where tokenizer.ggml.add_bos_token says nothing
} pre_type;

// NULL: not known. "default", and a name that is missing, are GPT-2's.
const pre_type *pre_type_of(const char *name);
// Returns the names that are known, separated by ", ".
const char *pre_type_names(void);
// "pre_tokenizer" of tokenizer.json; the caller owns the value.
json_t *pre_type_json(const pre_type *type);
// Returns the type that corresponds to tokenizer.json; NULL: none does.
const pre_type *pre_type_of_json(const json_t *pre_tokenizer, bool ignore_merges);
