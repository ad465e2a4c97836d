// Tokenised data: Megatron's .bin/.idx (Megatron-LM megatron/core/datasets/indexed_dataset.py;
// layout in docs/formats.md). Existing data sets open as they are, all integer types.
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/status.h"
#include "tok/tokenizer.h"

typedef struct dataset { // immutable after opening; reads are thread-safe
    const char *prefix;
    file_map idx;
    int fd;
    int code, token_bytes; // dtype code of the file
    int64_t n_sequences, n_documents, n_tokens;
} dataset;

// PREFIX.bin and PREFIX.idx. DRV_E_DATA: the index is not what it should be; names the field.
DRV_CHECKED drv_status dataset_open(arena *a, const char *prefix, dataset **out);
void dataset_close(dataset *d);

// First token of a document (of n_documents: n_tokens), and the document that holds a token.
int64_t dataset_document_start(const dataset *d, int64_t document);
int64_t dataset_document_of(const dataset *d, int64_t token);
// Tokens [first, first + n) as they lie. DRV_E_DATA: one is not in [0, n_vocab).
DRV_CHECKED drv_status dataset_read(const dataset *d, int64_t first, int64_t n, int64_t n_vocab,
        int32_t *out);

// Gives back the pages of the index that lookups brought in.
void dataset_forget(const dataset *d);

enum { DATASET_HEADER = 34 };       // bytes before the lengths in .idx
extern const char dataset_magic[9]; // it begins with this
