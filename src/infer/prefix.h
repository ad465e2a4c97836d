// The token that stands before a text without context, as lm-evaluation-harness's prefix_token_id.
#pragma once
#include "tok/tokenizer.h"

// Finds the token that begins a text, else the one that ends it. DRV_E_DATA: the tokenizer has
// neither.
DRV_CHECKED drv_status prefix_token(const tokenizer *t, int32_t *out);
// DRV_E_DATA: one of the ids is beyond the vocabulary of the model.
DRV_CHECKED drv_status prefix_check_ids(const int32_t *ids, int64_t n, int64_t n_vocab);
