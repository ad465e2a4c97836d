// tiktoken's ranks: a line "BASE64 RANK" for each token, whose rank is both its id and its priority
// in merging. The file has neither the split pattern nor the special tokens: they are those of the
// model family, which the number of ranks or else the file's name identifies.
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef struct rank_family {
    const char *name, *in_name; // its usual name; a word that its files' names contain
    int32_t n_ranks;
    const char *pattern;
    bool nfc;        // texts are normalised to NFC first
    const char *bos; // put in front of a text; NULL: nothing
    const char *eos, *pad;
} rank_family;

typedef struct rank_file {
    const rank_family *family;
    str_view *tokens; // in the order of ids, spelled as in byte-level vocabularies
    int32_t *ids;
    float *scores; // for merges: the smallest rank has the largest score
    int64_t n;
    int32_t n_ids; // the largest id + 1
} rank_file;

// Returns whether a file begins with a line "BASE64 RANK".
bool rank_file_is(const void *bytes, size_t n);
// Reads the bytes of a file. DRV_E_DATA names the line and what is wrong.
DRV_CHECKED drv_status rank_file_read(arena *a, const char *path, const void *bytes, size_t n,
        rank_file *out);
// Returns the special tokens, in the form of tokenizer.json's added_tokens.
json_t *rank_file_specials(const rank_file *ranks);
