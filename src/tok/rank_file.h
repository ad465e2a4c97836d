// The ranks of tiktoken: a line "BASE64 RANK" for each token, whose rank is its id and its place in
// the order of merges. The file has neither the pattern that cuts texts into words nor the special
// tokens: they are those of the family to which it belongs by the number of its ranks, or by its
// name.
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef struct rank_family {
    const char *name, *in_name; // as people call it; what the names of its files have in them
    int32_t n_ranks;
    const char *pattern;
    bool nfc;        // texts are composed first
    const char *bos; // put in front of a text; NULL: nothing
    const char *eos, *pad;
} rank_family;

typedef struct rank_file {
    const rank_family *family;
    str_view *tokens; // in the order of ids, as byte-level vocabularies write bytes
    int32_t *ids;
    float *scores; // of merges: the smallest rank has the largest
    int64_t n;
    int32_t n_ids; // the largest id + 1
} rank_file;

// Returns whether a file begins with such a line.
bool rank_file_is(const void *bytes, size_t n);
// Reads the bytes of a file. DRV_E_DATA names the line and what is wrong.
DRV_CHECKED drv_status rank_file_read(arena *a, const char *path, const void *bytes, size_t n,
        rank_file *out);
// Makes the list of special tokens, as added_tokens of tokenizer.json.
json_t *rank_file_specials(const rank_file *ranks);
