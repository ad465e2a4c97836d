// The word that describes the role of a token in a preference pair (ir/ops/preference.c), shared by
// the code that lays out rows and the code that computes with them.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { PAIR_NONE = -1 }; // the token does not predict a token of a response

// `pair` is a number within the micro-batch, below 2^29. `head`: the token is the first one that
// predicts a token of its response, and stands for the whole of it.
static inline int32_t pair_word(int64_t pair, bool rejected, bool head) {
    return (int32_t)(pair << 2 | (int64_t)rejected << 1 | (int64_t)head);
}
static inline int64_t pair_of_word(int32_t word) {
    return word >> 2;
}
static inline bool pair_is_rejected(int32_t word) {
    return word >> 1 & 1;
}
static inline bool pair_is_head(int32_t word) {
    return word != PAIR_NONE && (word & 1);
}
