// The tokenizer in a GGUF file's metadata, and the equivalent tokenizer.json and
// tokenizer_config.json.
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
    TOKEN_UNUSED = 5,       // a row of the embedding without a token: [PAD49152]
    TOKEN_BYTE = 6,         // <0x0A>
} token_type;

typedef enum token_flag { // properties of an added token that GGUF lacks
    TOKEN_LSTRIP = 1,
    TOKEN_RSTRIP = 2,
    TOKEN_SINGLE_WORD = 4,
    TOKEN_NORMALIZED = 8,
} token_flag;
enum { N_TOKEN_FLAGS = 4 };
// Names of the flags in tokenizer.json, in the order of their bits.
extern const char *const token_flag_names[N_TOKEN_FLAGS];
// The key under which drover keeps the flags: JSON, [{"id": 5, "lstrip": true}, ...].
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

// Reads the tokenizer, into `a`; its texts stay in the metadata. *found is false if the file has
// none. DRV_E_DATA: its kind is not supported, or the metadata are invalid.
DRV_CHECKED drv_status vocabulary_read(arena *a, const gguf_file *f, vocabulary *out, bool *found);

// Append the files' contents.
void vocabulary_tokenizer_json(const vocabulary *v, str *out);
void vocabulary_config_json(const vocabulary *v, str *out);
