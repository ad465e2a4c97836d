// The tokenizer in a GGUF file's metadata, and the tokenizer.json and tokenizer_config.json that
// say the same.
#pragma once
#include "base/json.h"
#include "base/str.h"
#include "gguf/gguf.h"
#include "gguf/pre_types.h"

typedef enum token_type { // tokenizer.ggml.token_type
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,      // <unk>
    TOKEN_CONTROL = 3,      // special: <s>
    TOKEN_USER_DEFINED = 4, // found whole in a text, but not special
    TOKEN_UNUSED = 5,       // rows of the embedding that no token has: [PAD49152]
    TOKEN_BYTE = 6,         // <0x0A>
} token_type;

typedef enum token_flag { // properties of an added token that llama.cpp does not know
    TOKEN_LSTRIP = 1,
    TOKEN_RSTRIP = 2,
    TOKEN_SINGLE_WORD = 4,
    TOKEN_NORMALIZED = 8,
} token_flag;
enum { N_TOKEN_FLAGS = 4 };
// The names of the flags in tokenizer.json, in the order of their bits.
extern const char *const token_flag_names[N_TOKEN_FLAGS];
// The key that keeps them for drover: JSON, [{"id": 5, "lstrip": true}, ...].
#define GGUF_TOKEN_FLAGS "drover.added_token_flags"

enum { MAX_CHAT_TEMPLATES = 16 };

typedef struct chat_text { // a chat template
    const char *name, *text;
} chat_text;

typedef struct vocabulary {
    bool sentencepiece;  // else byte-level BPE
    const pre_type *pre; // byte-level only
    gguf_text *tokens;
    int32_t *types; // token_type
    int *flags;     // of added tokens, token_flag
    int64_t n;
    gguf_text (*merges)[2];
    int64_t n_merges;
    int64_t bos, eos, unk, pad; // ids; -1: none
    bool add_bos, add_eos;
    bool space_prefix; // sentencepiece: a space is put in front of a text
    chat_text chat[MAX_CHAT_TEMPLATES];
    int n_chat;
    int64_t context; // tokens
} vocabulary;

// Lives in `a` and in the file's metadata. *found is false if the file has no tokenizer.
// DRV_E_DATA: a kind that is not supported, by its name, or invalid metadata.
DRV_CHECKED drv_status vocabulary_read(arena *a, const gguf_file *f, vocabulary *out, bool *found);

// Appends the texts of the files.
void vocabulary_tokenizer_json(const vocabulary *v, str *out);
void vocabulary_config_json(const vocabulary *v, str *out);
