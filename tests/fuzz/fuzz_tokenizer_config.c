// tokenizer_config.json from outside, beside a tokenizer.json that is whole: roles are found or the
// file is refused.
#include "fuzz.h"

#include "tok/tokenizer.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char model[] = "{\"pre_tokenizer\": {\"type\": \"ByteLevel\"},"
                                " \"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\":"
                                " {\"<s>\": 0, \"</s>\": 1, \"a\": 2}}}";
    fuzz_file(a, "tokenizer.json", model, strlen(model));
    fuzz_file(a, "tokenizer_config.json", bytes, n_bytes);
    tokenizer *t;
    if (tokenizer_open(a, fuzz_folder(), &t) == DRV_OK) {
        const int32_t ids[] = {tokenizer_role(t, ROLE_BOS), tokenizer_role(t, ROLE_EOS),
                tokenizer_role(t, ROLE_PAD), tokenizer_role(t, ROLE_UNK)};
        for (int i = 0; i < 4; i++)
            if (ids[i] < -1 || ids[i] >= tokenizer_n_vocab(t)) abort();
        tokenizer_close(t);
    }
}
