// Returns the prefix token of a tokenizer, and refuses ids that a model does not have.
#include "infer/prefix.h"

drv_status prefix_token(const tokenizer *t, int32_t *out) {
    *out = tokenizer_role(t, ROLE_BOS) >= 0 ? tokenizer_role(t, ROLE_BOS)
                                            : tokenizer_role(t, ROLE_EOS);
    if (*out >= 0) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s names no token that begins or ends a text, expected bos_token or eos_token in tokenizer_config.json",
            tokenizer_path(t));
}

drv_status prefix_check_ids(const int32_t *ids, int64_t n, int64_t n_vocab) {
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= n_vocab)
            return drv_fail(DRV_E_DATA,
                    "the tokenizer's id %d is beyond the model's vocabulary of %lld", ids[i],
                    (long long)n_vocab);
    return DRV_OK;
}
