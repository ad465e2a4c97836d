// Text files as token ids in memory, document by document: what `drover eval --text` scores.
#pragma once
#include "data/read/reader.h"
#include "tok/tokenizer.h"

typedef struct documents_opts {
    reader_opts reader;
    const char *const *inputs;
    int n_inputs;
    int32_t prefix; // stands before each document
    bool specials; // with what the tokenizer puts around a text, unless the text begins with `prefix`
} documents_opts;

typedef struct documents {
    id_list ids;    // of all, each after the prefix
    int64_t *begin; // [n + 1] where each begins, with its prefix
    int64_t n, cap;
    // Sums over the documents' texts, as lm-evaluation-harness counts: bytes of UTF-8, and parts
    // that re.split of \s+ makes.
    int64_t bytes, words;
    int64_t skipped, replaced; // broken records; invalid byte sequences, read as U+FFFD
} documents;

// DRV_E_DATA: there is no document. The arena holds the readers while it reads.
DRV_CHECKED drv_status documents_read(arena *a, const tokenizer *tok, const documents_opts *opts,
        documents *out);
void documents_free(documents *d);
