// The model file of sentencepiece, tokenizer.model of Llama 2, Mistral and Gemma: a ModelProto in
// the encoding of protocol buffers (github.com/google/sentencepiece, src/sentencepiece_model.proto,
// whose numbers of fields are used here).
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "tok/unigram.h"

typedef enum piece_type { // numbers of the format
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,      // <s>: found in no text
    PIECE_USER_DEFINED = 4, // found whole in a text
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6, // <0x0A>
} piece_type;

typedef struct piece_model {
    str_view *pieces; // by id
    float *scores;
    uint8_t *types; // piece_type
    int32_t n;
    bool is_unigram;                // else BPE
    bool byte_fallback;             // all 256 bytes are pieces
    int32_t unknown, bos, eos, pad; // ids; -1: none
    // The normaliser.
    str_view charsmap;   // its rules (piece_rules.h); empty: none
    bool dummy_prefix;   // a space is put in front of a text
    bool space_is_last;  // behind it instead: words end with their space
    bool removes_spaces; // at both ends, and all but one between words
    bool escapes_spaces; // a space is written as U+2581
} piece_model;

// Fills what the unigram model needs but for the bytes, in `a`. Scores are as sentencepiece 0.2.3
// has them: that of a user-defined piece follows from its length.
void piece_model_unigram(arena *a, const piece_model *m, unigram_pieces *out);
int piece_byte(str_view piece); // 10 of <0x0A>; -1: it is no byte
// Reads the bytes of a file. The model's texts lie in them. DRV_E_DATA names what is wrong.
DRV_CHECKED drv_status piece_model_read(arena *a, const char *path, const void *bytes,
        size_t n_bytes, piece_model *out);
