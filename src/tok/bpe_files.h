// A BPE tokenizer as lists, and the files that Hugging Face's libraries load. Training, a model
// file and a GGUF file all make such lists.
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef enum piece_type { // the numbers of sentencepiece's model files and of GGUF
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,      // <unk>
    PIECE_CONTROL = 3,      // special: <s>
    PIECE_USER_DEFINED = 4, // found whole in a text, but not special
    PIECE_UNUSED = 5,       // [PAD49152] in GGUF: a row of the embedding without a token
    PIECE_BYTE = 6,         // <0x0A>
} piece_type;

typedef enum token_flag { // further properties of an added token
    TOKEN_LSTRIP = 1,
    TOKEN_RSTRIP = 2,
    TOKEN_SINGLE_WORD = 4,
    TOKEN_NORMALIZED = 8,
} token_flag;
enum { N_TOKEN_FLAGS = 4 };
// Names of the flags in tokenizer.json, in the order of their bits.
extern const char *const token_flag_names[N_TOKEN_FLAGS];

typedef struct bpe_words { // how byte-level BPE splits a text into words
    const char *pattern;   // of a Split; NULL: GPT-2's, built into ByteLevel
    bool digits;           // every digit is a separate word; then there is no pattern
} bpe_words;

typedef struct chat_text { // a chat template
    const char *name, *text;
} chat_text;

typedef struct bpe_lists {
    bool sentencepiece; // else byte-level
    bool space_prefix;  // sentencepiece: a space is put in front of a text
    bool nfc, ignore_merges;
    bpe_words words; // byte-level only
    const str_view *tokens;
    uint8_t *types;       // piece_type
    uint8_t *flags;       // token_flag; NULL: none
    int64_t n;            // tokens; the id of each is its index
    int32_t (*merges)[2]; // ids
    int64_t n_merges;
    int64_t bos, eos, unk, pad; // ids; -1: none
    bool add_bos, add_eos;      // put around a text
    const chat_text *chat;
    int n_chat;
    int64_t context; // tokens; 0: not known
} bpe_lists;

// Derives the merges from the scores of the tokens (score_merges.h). `normal`: only merges whose
// result is a normal piece.
void bpe_lists_merge_by(arena *a, bpe_lists *lists, const float *scores, bool normal);
// Makes "pre_tokenizer" of a byte-level tokenizer.json; the caller owns the value.
json_t *bpe_words_json(const bpe_words *words);
// Append the contents of tokenizer.json and tokenizer_config.json.
void bpe_tokenizer_json(const bpe_lists *lists, str *out);
void bpe_config_json(const bpe_lists *lists, str *out);
// Writes both files to a folder, and creates it if it does not exist.
DRV_CHECKED drv_status bpe_files_write(const bpe_lists *lists, const char *folder);
