// Tokenizers in other formats than tokenizer.json: sentencepiece's model file (piece_model.h), and
// tiktoken's ranks, a line "BASE64 RANK" for each token (rank_file.h). Publishers of models call
// both tokenizer.model. tokenizer_open reads them directly.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

// Writes tokenizer.json and tokenizer_config.json, which give the same ids, into a folder. `path`:
// the file, or a folder that has one. DRV_E_DATA: the file is broken, or tokenizer.json cannot
// express it, for the reason in the message; then nothing is written.
DRV_CHECKED drv_status model_file_convert(const char *path, const char *folder);

// Returns the model file of a folder: tokenizer.model, else one that ends in .model or .tiktoken.
// NULL: there is none.
const char *model_file_in(arena *a, const char *folder);

// Returns the file that tokenizer_open reads: tokenizer.json of a folder, else its model file.
// NULL: the folder has neither.
const char *tokenizer_file_of(arena *a, const char *path);
