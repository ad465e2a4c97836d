// Reads text files and keeps their documents in memory as token ids, for `drover eval --text`.
#pragma once
#include "data/read/reader.h"
#include "tok/tokenizer.h"

typedef struct documents_opts {
    reader_opts reader;
    const char *const *inputs;
    int n_inputs;
    int32_t prefix; // put before each document
    bool specials;  // add the special tokens that the tokenizer puts around a text, unless the text
                    // begins with `prefix`
} documents_opts;

typedef struct documents {
    id_list ids;    // of all documents, each after the prefix
    int64_t *begin; // [n + 1] where each document begins, its prefix included
    int64_t n, cap;
    // Sums over the documents' texts, as lm-evaluation-harness counts: bytes of UTF-8, and the
    // parts that re.split(r"\s+") returns.
    int64_t bytes, words;
    int64_t skipped, replaced; // broken records; invalid byte sequences, replaced by U+FFFD
} documents;

// DRV_E_DATA: there is no document.
DRV_CHECKED drv_status documents_read(arena *a, const tokenizer *tok, const documents_opts *opts,
        documents *out);
void documents_free(documents *d);
