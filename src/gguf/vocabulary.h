// Converts between the tokenizer in a GGUF file's metadata and Hugging Face's files.
#pragma once
#include "gguf/gguf.h"
#include "gguf/gguf_builder.h"
#include "tok/bpe_files.h"

// The key under which drover keeps the flags of added tokens, which GGUF lacks: JSON, [{"id": 5,
// "lstrip": true}, ...].
#define GGUF_TOKEN_FLAGS "drover.added_token_flags"

// Reads the tokenizer, into `a`; its texts stay in the metadata. *found is false if the file has
// none. DRV_E_DATA: its kind is not supported, or the metadata are invalid.
DRV_CHECKED drv_status vocabulary_read(arena *a, const gguf_file *f, bpe_lists *out, bool *found);

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

// Adds the tokenizer of these files. DRV_E_DATA: a file is broken, or has a setting that GGUF
// cannot express.
DRV_CHECKED drv_status vocabulary_put(const tokenizer_texts *texts, gguf_builder *out);
