// Tokenizers that are no tokenizer.json: the model file of sentencepiece (piece_model.h), and the
// ranks of tiktoken, a line "BASE64 RANK" for each token (rank_file.h). Both are called
// tokenizer.model by those who publish models. tokenizer_open reads them as they are.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

// Writes tokenizer.json and tokenizer_config.json, which give the same ids, into a folder. `path`:
// the file, or a folder that has one. DRV_E_DATA: the file is broken, or the reason why
// tokenizer.json cannot say what it says; nothing is written then.
DRV_CHECKED drv_status model_file_convert(const char *path, const char *folder);

// Finds the model file of a folder: tokenizer.model, else one that ends in .model or
// .tiktoken. NULL: none.
const char *model_file_in(arena *a, const char *folder);

// Returns the file that tokenizer_open reads: tokenizer.json of a folder, else its model file.
// NULL: the folder has neither.
const char *tokenizer_file_of(arena *a, const char *path);
