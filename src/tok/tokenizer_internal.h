// The parts of a tokenizer, for the files of this folder.
#pragma once
#include "tok/text_steps.h"
#include "tok/split.h"
#include "tok/token_role.h"
#include "tok/tokenizer.h"
#include "tok/piece_bpe.h"
#include "tok/unigram.h"
#include "tok/word_table.h"

enum { MAX_RULES = 8, MAX_TEMPLATE = 8 };

// U+2581, which sentencepiece writes for a space. In memory it is a plain space: in the bytes of
// entries and in normalised text.
#define SPACE_MARK "\xE2\x96\x81"

typedef struct added_token { // searched for in the raw text, or in the normalised text
    const char *name;
    const unsigned char *text; // the text to search for, to which the id also decodes
    int n;
    int32_t id;
    int32_t same;             // while loading: 1 + the index of the previous token with this id
    bool special, normalized; // normalized: `text` is normalised, as is the text searched
    bool single_word;         // matches only where no word continues on either side
    bool lstrip, rstrip;      // also takes the white space before it, or after it
} added_token;

typedef struct added_group { // added tokens that begin with the same byte
    added_token *p;          // the longest first
    int n;
    int n_common; // bytes of their common prefix
    int *lengths; // of their texts, each once, the longest first
    int n_lengths;
} added_group;

typedef struct added_index {
    added_group by_byte[256];
    added_token **slots; // by text, open addressing; NULL: empty
    uint64_t mask;
    int n_groups;
    unsigned char first; // the first byte of the only group
} added_index;

typedef struct merge_to {
    int32_t rank, merged; // rank INT32_MAX: no merge
} merge_to;

// A cache line of the merge table. A line is filled from the front, and overflows into the next
// one. All of it is compared without a branch, so that the look-ups of the two merges of a new
// symbol overlap.
enum { LINE_MERGES = 4 };
#define NO_PAIR UINT64_MAX
typedef struct merge_line {
    uint64_t pair[LINE_MERGES]; // left << 32 | right; NO_PAIR: empty
    merge_to to[LINE_MERGES];
} merge_line;

static inline uint64_t pair_hash(uint64_t pair) {
    const uint64_t h = pair * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 32;
}

typedef enum space_prefix { // whether a space is put in front of a sentencepiece-style text
    PREFIX_NONE,
    PREFIX_ALWAYS, // normalizer Prepend
    PREFIX_UNLESS, // Metaspace "always": unless the text begins with a space
    PREFIX_FIRST,  // Metaspace "first": as PREFIX_UNLESS, but only before the first part
} space_prefix;

// The bytes for which a token stands. An entry with characters outside the vocabulary's alphabet (a
// raw space among GPT-2's stand-ins) stands for itself: it can be decoded, but no text gives it.
typedef struct token_bytes {
    const unsigned char *p; // NULL: no such id
    int32_t n;
    bool as_written;
} token_bytes;

// A slot of the hash table of entries. The tag alone rejects most words that are not entries,
// without comparing bytes.
typedef struct entry_slot {
    uint32_t tag;  // upper half of the hash
    int32_t entry; // in tokenizer.entries; -1: empty
} entry_slot;

struct tokenizer {        // immutable after opening, except for `words`
    const char *path;     // of tokenizer.json
    int32_t n_vocab;      // largest id + 1
    token_bytes *entries; // by id: the vocabulary; aliases follow
    token_bytes *decoded; // by id: the bytes to which it decodes; added tokens override entries
    int32_t n_entries;    // keys in the vocabulary
    int32_t n_ids;        // the vocabulary's largest id + 1, where aliases begin in `entries`
    int32_t *alias_id;    // of entries[n_ids ...]: keys that share their id with another key
    int32_t n_aliases;
    bool byte_level, ignore_merges, nfc;
    bool space_mark; // the sentencepiece style: U+2581 is a space
    bool metaspace;  // a pre-tokenizer sets space_mark, after added tokens are cut out; else a
                     // normalizer
    space_prefix prefix;
    text_steps steps;  // normalisers before the above
    bool parts_spaces; // white space separates words and is dropped; then each has a space in front
    const piece_rules *rules;   // the normaliser of a sentencepiece model; NULL: the fields above
    const unigram *unigram;     // encodes normalised texts; NULL: the model is BPE
    const piece_bpe *piece_bpe; // BPE that a list of merges cannot express; NULL: merges do
    bool strip_space;           // the decoder removes one leading space
    bool decodes_keys;   // to keys as the vocabulary spells them: no decoder turns stand-ins into
                         // bytes, or U+2581 into spaces
    bool joins_by_space; // no decoder: decoding puts spaces between tokens
    split_rule rule[MAX_RULES]; // applied one after the other
    int n_rules;
    int32_t byte_id[256];     // byte-level: id of each byte; -1: none
    int32_t fallback_id[256]; // id of <0xXX>; -1: none, or no byte_fallback
    bool all_bytes;           // each byte has an id in one of these
    bool decodes_bytes;       // <0xXX> decodes to a byte
    int32_t ascii_id[128];    // id of each character; -1: none
    int32_t unknown;          // -1: none
    bool fuse_unknown;        // adjacent unknown tokens become one
    merge_line *merges;
    uint64_t merge_mask;
    merge_to *byte_merges;  // byte-level, with all bytes: merge of two bytes, at 256 * left + right
    entry_slot *word_slots; // bytes -> id, open addressing
    uint64_t word_mask;
    added_token *added;
    int n_added;
    added_token **added_slots; // by name, open addressing; NULL: empty
    uint64_t added_mask;
    added_index raw, normalized; // the added tokens, by the text that is searched for them
    bool can_cut; // texts may be cut where split_cut says: no added token and no merge crosses the
                  // cut
    int32_t before[MAX_TEMPLATE], after[MAX_TEMPLATE]; // special ids put around a text
    int n_before, n_after;
    bool *is_special;            // by id
    bool splits_special;         // special tokens in a text are encoded as plain text
    int32_t role[N_TOKEN_ROLES]; // ids; -1: none
    word_table *words;
};

// Returns the merge of two ids; rank INT32_MAX: there is none.
static inline merge_to tokenizer_merge_of(const tokenizer *t, int32_t a, int32_t b) {
    const uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    for (uint64_t h = pair_hash(pair);; h++) {
        const merge_line *line = &t->merges[h & t->merge_mask];
        merge_to found = {INT32_MAX, -1};
        for (int i = 0; i < LINE_MERGES; i++) {
            const merge_to to = line->to[i];
            found = line->pair[i] == pair ? to : found;
        }
        const bool ends = found.rank != INT32_MAX || line->pair[LINE_MERGES - 1] == NO_PAIR;
        if (__builtin_expect(ends, 1)) return found;
    }
}
// Writes the bytes for which a vocabulary key stands in a word; returns their number, which is
// never larger than n_key. `out` may be `key`.
size_t entry_to_bytes(const tokenizer *tok, const char *key, size_t n_key, unsigned char *out,
        bool *as_written);
// Returns the added token with this text in an index; NULL: none.
const added_token *added_with_text(const added_index *x, const void *text, size_t n);
// Returns the added token with this name; NULL: none.
const added_token *added_with_name(const tokenizer *t, const char *name);
// Returns the id of an entry by its key in tokenizer.json, valid UTF-8; -1: none.
int32_t tokenizer_entry(const tokenizer *t, const char *key, size_t n);
// Returns the id of the entry that stands for these bytes of a text; -1: none.
int32_t tokenizer_word(const tokenizer *t, const void *p, size_t n);
// Returns whether normalising can change a text.
static inline bool tokenizer_normalizes(const tokenizer *t) {
    return t->nfc || t->rules || t->steps.n || (t->space_mark && !t->metaspace);
}
// Appends a part of a text in normalised form: applies the steps and NFC, replaces U+2581 by a
// space, and puts a space in front under PREFIX_ALWAYS.
void tokenizer_normalize(const tokenizer *tok, const void *text, size_t n_bytes, str *out);
// Appends the text in NFC if the tokenizer uses it, else as it is.
void tokenizer_compose(const tokenizer *tok, const void *text, size_t n_bytes, str *out);

// Map a byte to its printable stand-in in byte-level vocabularies (GPT-2's table), and back.
uint32_t byte_char(int byte);
int char_byte(uint32_t cp); // -1: none
// Spells n > 0 bytes as byte-level vocabularies do.
str_view byte_names(arena *a, const char *p, size_t n);
