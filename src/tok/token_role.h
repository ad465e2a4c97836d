// Finds the roles of special tokens. A token has a role if tokenizer_config.json assigns it, or if
// its name is a well-known one.
#pragma once
#include <stdbool.h>

typedef enum token_role {
    ROLE_BOS, // beginning of a text
    ROLE_EOS, // end of a text
    ROLE_PAD, // fills rows that are too short
    ROLE_UNK, // stands for text that the vocabulary lacks
    N_TOKEN_ROLES,
} token_role;

const char *token_role_key(token_role role);   // "bos_token": as Hugging Face's files call it
const char *token_role_short(token_role role); // "bos"
const char *token_role_means(token_role role); // "beginning of text"

// Returns the usual names of the token with a role, the most common first, NULL after the last.
const char *const *token_role_names(token_role role);
