// The token that precedes a text without context: lm-evaluation-harness's prefix_token_id.
#pragma once
#include "tok/tokenizer.h"

// Returns the tokenizer's BOS token, else its EOS token. DRV_E_DATA: it has neither.
DRV_CHECKED drv_status prefix_token(const tokenizer *t, int32_t *out);
// Checks ids. DRV_E_DATA: one is outside the vocabulary of the model.
DRV_CHECKED drv_status prefix_check_ids(const int32_t *ids, int64_t n, int64_t n_vocab);
