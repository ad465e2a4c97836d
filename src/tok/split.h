// Splits text into words before BPE (pre-tokenization). Known patterns have hand-written scanners;
// any other pattern is matched by PCRE2.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum split_kind {
    SPLIT_GPT2,        // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    SPLIT_LLAMA3,      // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
                       //  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    SPLIT_DIGITS,      // each numeric character is a word (Digits, individual_digits)
    SPLIT_DIGITS_GPT2, // SPLIT_DIGITS, then SPLIT_GPT2 on each part
    SPLIT_SPACES,      // a word begins at each space (Metaspace with split)
    SPLIT_JOINS,       // no pre-tokenizer: cuts where no merge can cross
    SPLIT_REGEX,
} split_kind;

// The pairs of bytes that may be adjacent in an entry of the vocabulary: bit `y` of row `x`.
typedef struct byte_joins {
    uint64_t row[256][4];
} byte_joins;

// Patterns of known models, as tokenizer.json has them: GPT-2, Llama 3, GPT-4 (cl100k), Qwen 2,
// Mistral's Tekken, GPT-4o (o200k).
extern const char split_pattern_gpt2[], split_pattern_llama3[], split_pattern_cl100k[],
        split_pattern_qwen2[], split_pattern_tekken[], split_pattern_o200k[];

struct split_cursor;

typedef struct split_rule {
    split_kind kind;
    void *regex;             // pcre2_code, for SPLIT_REGEX
    const byte_joins *joins; // for SPLIT_JOINS
    // The result of scan_blocks_for(kind); NULL: words are scanned one by one.
    int (*blocks)(struct split_cursor *t, const unsigned char **bounds, int k);
} split_rule;

// Picks the scanner for a pattern, or compiles it. DRV_E_DATA: PCRE2 refuses it.
DRV_CHECKED drv_status split_rule_for(const char *where, const char *pattern, split_rule *out);
void split_rule_free(split_rule *r);
// Sets r->blocks, once the kind is known. Without it scanning is slower.
void split_rule_speed_up(split_rule *r);

// Words are contiguous, so a batch of n words is n + 1 bounds: word i goes from bounds[i] to
// bounds[i + 1].
enum { SPLIT_BATCH = 160, SPLIT_BLOCK = 64 }; // most words in a batch; bytes of a block of text

// A text being split: valid UTF-8, done up to `next`. Lookbehind and lookahead stay within it.
typedef struct split_cursor {
    const unsigned char *begin, *next, *end;
} split_cursor;

// Writes the bounds of the next words to bounds[SPLIT_BATCH + 1]; returns how many, 0 at the end.
int split_batch(const split_rule *r, split_cursor *t, const unsigned char **bounds);

// Splits a text by the rules, one after the other, and passes the words to `words` in order, in
// batches of at most SPLIT_BATCH. Without rules the text is one word.
typedef void (*split_words)(void *ctx, const unsigned char *const *bounds, int n);
void split_text(const split_rule *rules, int n_rules, const unsigned char *s, size_t n,
        split_words words, void *ctx);

// A scanner of a fixed pattern (split_kind): returns the end of the word that begins at s < end.
// `cp` is cp_table().
typedef const unsigned char *(
        *split_scan)(const unsigned char *s, const unsigned char *end, const uint8_t *cp);
split_scan split_scanner(split_kind kind); // NULL: the kind needs more than a pattern
