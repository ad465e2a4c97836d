// Cutting text into words before BPE ("pre-tokenization"). Known patterns have a scanner written by
// hand; any other goes through PCRE2.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum split_kind {
    SPLIT_NONE,   // the whole text is one word
    SPLIT_GPT2,   // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    SPLIT_LLAMA3, // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
                  //  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    SPLIT_DIGITS, // every number is a word of its own (Digits, individual_digits)
    SPLIT_REGEX,
} split_kind;

typedef struct split_rule {
    split_kind kind;
    void *regex; // pcre2_code, for SPLIT_REGEX
} split_rule;

extern const char split_pattern_gpt2[], split_pattern_llama3[];

// Picks the scanner for a pattern, or compiles it. DRV_E_DATA: PCRE2 refuses it.
DRV_CHECKED drv_status split_rule_for(const char *where, const char *pattern, split_rule *out);
void split_rule_free(split_rule *r);

// End of the word that begins at s[0], n > 0 bytes of valid UTF-8. Not for SPLIT_REGEX.
size_t split_next(split_kind kind, const unsigned char *s, size_t n);

// Calls word(ctx, begin, length) for each word of s[0..n) in order.
typedef void (*split_word)(void *ctx, const unsigned char *s, size_t n);
void split_text(const split_rule *r, const unsigned char *s, size_t n, split_word word, void *ctx);
