// The names of special tokens, and the roles that they imply.
#include "tok/token_role.h"

enum { MAX_NAMES = 8 };

static const struct {
    const char *key, *brief, *means, *names[MAX_NAMES];
} roles[N_TOKEN_ROLES] = {
        [ROLE_BOS] = {"bos_token", "bos", "beginning of text",
                {"<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "[BOS]", "<|endoftext|>"}},
        [ROLE_EOS] = {"eos_token", "eos", "end of text",
                {"</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>", "[EOS]"}},
        [ROLE_PAD] = {"pad_token", "pad", "padding",
                {"<pad>", "<|pad|>", "[PAD]", "<|finetune_right_pad_id|>"}},
        [ROLE_UNK] = {"unk_token", "unk", "unknown", {"<unk>", "<|unk|>", "[UNK]"}},
};

const char *token_role_key(token_role role) {
    return roles[role].key;
}

const char *token_role_short(token_role role) {
    return roles[role].brief;
}

const char *token_role_means(token_role role) {
    return roles[role].means;
}

const char *const *token_role_names(token_role role) {
    return roles[role].names;
}
