// The tokenizer that goes with a model's weights, held against their rows.
#pragma once
#include "ckpt/model_source.h"

// Checks that a model of this many rows has one for each token that tokenizer.json and
// tokenizer_config.json name. DRV_E_DATA: by the token that has none. A file that is not JSON is
// left to those who read it.
DRV_CHECKED drv_status carried_tokens_check(const ckpt_carried *files, int n_files, int64_t rows);
