// A tokenizer's Hugging Face files -> the metadata of a GGUF file.
#pragma once
#include "gguf/gguf_builder.h"

typedef struct tokenizer_texts { // of files; NULL: there is none
    const char *folder;          // for messages
    const char *tokenizer_json, *tokenizer_config_json, *special_tokens_map_json, *chat_template,
            *tool_template;
    size_t n_tokenizer_json, n_tokenizer_config_json, n_special_tokens_map_json;
    int64_t vocab_size; // rows of the embedding: tokens that the tokenizer lacks are filled up
    int64_t bos, pad;   // of the model, where the tokenizer's files do not say; -1: none
    const int64_t *eos; // of the model: all that end a text or a turn
    int n_eos;
} tokenizer_texts;

// DRV_E_DATA: the files are broken, or GGUF has no name for what they say.
DRV_CHECKED drv_status vocabulary_put(const tokenizer_texts *texts, gguf_builder *out);
