// Writes a tokenizer's Hugging Face files as metadata of a GGUF file.
#pragma once
#include "gguf/gguf_builder.h"

typedef struct tokenizer_texts { // contents of files; NULL: no such file
    const char *folder;          // for messages
    const char *tokenizer_json, *tokenizer_config_json, *special_tokens_map_json, *chat_template,
            *tool_template;
    size_t n_tokenizer_json, n_tokenizer_config_json, n_special_tokens_map_json;
    int64_t vocab_size; // rows of the embedding; rows without a token get a filler
    int64_t bos, pad;   // the model's, if the tokenizer's files name none; -1: none
    const int64_t *eos; // the model's: all that end a text or a turn
    int n_eos;
} tokenizer_texts;

// Adds the tokenizer. DRV_E_DATA: a file is broken, or GGUF cannot express what it says.
DRV_CHECKED drv_status vocabulary_put(const tokenizer_texts *texts, gguf_builder *out);
