// Compares a model's tokenizer with the rows of its embedding.
#pragma once
#include "ckpt/model_source.h"

// Checks that a model with this many rows has one for each token that tokenizer.json and
// tokenizer_config.json define. DRV_E_DATA names a token without a row. Ignores a file that is not
// JSON, which its reader will refuse.
DRV_CHECKED drv_status carried_tokens_check(const ckpt_carried *files, int n_files, int64_t rows);
