// Tokenised data: Megatron's .bin/.idx (Megatron-LM megatron/core/datasets/indexed_dataset.py;
// layout in docs/formats.md). Opens existing data sets of all integer types unchanged.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/status.h"
#include "data/read/token_type.h"

// The content of PREFIX.idx.json (docs/formats.md). drover data build writes it; sets made
// elsewhere have none. It is trusted if the counts and the hash of the .idx in it match the .idx.
typedef struct dataset_about {
    bool known;            // it exists and is trusted; otherwise the members below are unknown
    const char *drover;    // version that built the set; NULL: not recorded
    const char *tokenizer; // path of tokenizer.json when it was built; NULL: not recorded
    const char
            *tokenizer_hash; // XXH3-64 of tokenizer.json, 16 hexadecimal digits; NULL: not recorded
    const char
            *texts_hash;  // tokenizer_texts_hash up to the largest id, likewise; NULL: not recorded
    int64_t n_vocab;      // of that tokenizer; 0: not recorded
    int64_t eod;          // id that was put after each document; -1: none
    const char *eod_text; // NULL: none
    int64_t largest_id;   // in the .bin; -1: not recorded
    int64_t largest_at;   // index of the first token with this id
    const char *roles_hash; // XXH3-64 of PREFIX.roles; NULL: the set has none
    const char *template;   // the chat template that rendered the conversations; NULL: not recorded
    const char *template_text; // its source; NULL: it is the tokenizer's own
    int64_t turn_end;          // id with which it ends an answer; -1: none, or not recorded
    const char *turn_end_text; // NULL: none
    int64_t answers,
            last_answers; // tokens of all answers, and of the last answer of each document
    // Preference pairs: each is two documents, the chosen one first, whose last answers are the
    // responses; 0: none.
    int64_t pairs;
    const char *pairs_hash; // XXH3-64 of PREFIX.pairs (pair_marks.h); NULL: the set has none
} dataset_about;

typedef struct dataset { // immutable after opening; reads are thread-safe
    const char *prefix;
    file_map idx;
    int fd;
    int code;        // dtype of the file, and
    token_type type; // the same as a type
    int64_t n_sequences, n_documents, n_tokens;
    uint64_t idx_hash; // XXH3-64 of the .idx
    dataset_about about;
    int roles_fd;        // PREFIX.roles; -1: the set has none
    char roles_hash[24]; // XXH3-64, 16 hexadecimal digits
} dataset;

// Opens PREFIX.bin and PREFIX.idx, and PREFIX.roles if it exists. DRV_E_DATA: the index is invalid
// (the message names the field), or the roles belong to other tokens. Warns of a PREFIX.idx.json
// that is broken or belongs to another index, and ignores it: the tokens do not depend on it.
DRV_CHECKED drv_status dataset_open(arena *a, const char *prefix, dataset **out);
void dataset_close(dataset *set);

// Finds a document: its first token and the number of its tokens. DRV_E_IO: the index has become
// shorter.
DRV_CHECKED drv_status dataset_find_document(const dataset *set, int64_t document, int64_t *first,
        int64_t *n);
// Return the first token of a document (n_tokens for document n_documents), and the document that
// contains a token. They read the map of the index: only for loops that bus_error_guard protects.
int64_t dataset_document_start(const dataset *set, int64_t document);
int64_t dataset_document_of(const dataset *set, int64_t token);
// Reads tokens [first, first + n). DRV_E_DATA: one is not in [0, n_vocab).
DRV_CHECKED drv_status dataset_read(const dataset *set, int64_t first, int64_t n, int64_t n_vocab,
        int32_t *out);

// Returns whether the set has PREFIX.roles: an sft_role (data/sft/sft.h) for each token.
bool dataset_has_roles(const dataset *set);
// Reads the roles of tokens [first, first + n) of a set that has roles.
DRV_CHECKED drv_status dataset_read_roles(const dataset *set, int64_t first, int64_t n,
        unsigned char *out);

// Counts of the roles and lengths of a set of conversations.
typedef struct dataset_answers {
    int64_t tokens, last_tokens; // of all answers, and of last answers
    int64_t documents, without;  // all documents, and those without a token of an answer
    int64_t longest, n_longer,
            n_beyond; // tokens of the longest document; the number of documents of more than
                      // row_tokens + 1 tokens, and the sum of their tokens beyond that
} dataset_answers;
// Counts the answers of a set that has roles. DRV_E_DATA: the counts differ from PREFIX.idx.json,
// or an answer follows a last answer in its document.
DRV_CHECKED drv_status dataset_count_answers(const dataset *set, int64_t row_tokens,
        dataset_answers *out);

// Checks that every token is in [0, n_vocab): at once if PREFIX.idx.json records the largest id
// (which is compared with the token that it names), otherwise by reading all of .bin. DRV_E_DATA
// names data set, token, value, document and vocabulary. *cancel (may be NULL) is polled every few
// MB; when it is set the result is DRV_OK.
DRV_CHECKED drv_status dataset_check_vocab(const dataset *set, int64_t n_vocab,
        const atomic_bool *cancel);
// Does the same, but always reads all of .bin.
DRV_CHECKED drv_status dataset_scan_vocab(const dataset *set, int64_t n_vocab,
        const atomic_bool *cancel);
// Returns whether dataset_check_vocab is instant: PREFIX.idx.json records the largest id, and the
// token that it names has this id.
bool dataset_knows_largest(const dataset *set);

// Computes the XXH3-64 of a tokenizer.json, as stored in PREFIX.idx.json.
DRV_CHECKED drv_status dataset_tokenizer_hash(const char *path, uint64_t *out);
// Writes PREFIX.idx.json for the set at PREFIX. `about` may omit unknown fields.
DRV_CHECKED drv_status dataset_about_write(const dataset *set, const dataset_about *about);
// Parses PREFIX.idx.json, which must belong to `set`; `path` is for messages. Strings live in the
// arena.
DRV_CHECKED drv_status dataset_about_parse(arena *a, const dataset *set, const char *path,
        const void *bytes, size_t n, dataset_about *out);

// Releases the pages of the index that lookups have brought into memory.
void dataset_forget(const dataset *set);

enum { DATASET_HEADER = 34 };       // bytes before the lengths in .idx
extern const char dataset_magic[9]; // .idx begins with it
