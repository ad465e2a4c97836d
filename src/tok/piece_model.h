// Reads sentencepiece's model file, the tokenizer.model of Llama 2, Mistral and Gemma: a protocol
// buffer, ModelProto. Field numbers are those of src/sentencepiece_model.proto in
// github.com/google/sentencepiece.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "tok/bpe_files.h"
#include "tok/unigram.h"

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
    bool space_is_last;  // the space is put after the text instead: words end with their space
    bool removes_spaces; // removes spaces at both ends, and all but one between words
    bool escapes_spaces; // a space is written as U+2581
} piece_model;

// Fills `out`, in `a`, for the unigram model, except byte_id. Scores are those of sentencepiece
// 0.2.3, where that of a user-defined piece follows from its length.
void piece_model_unigram(arena *a, const piece_model *m, unigram_pieces *out);
int piece_byte(str_view piece); // 10 for <0x0A>; -1: not a byte piece
// Reads the bytes of a file, to which the model's texts point. DRV_E_DATA: the file is invalid.
DRV_CHECKED drv_status piece_model_read(arena *a, const char *path, const void *bytes,
        size_t n_bytes, piece_model *out);
