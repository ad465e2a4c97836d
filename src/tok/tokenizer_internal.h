// The parts of a tokenizer, for the files of this folder.
#pragma once
#include "tok/text_steps.h"
#include "tok/split.h"
#include "tok/token_role.h"
#include "tok/tokenizer.h"
#include "tok/piece_bpe.h"
#include "tok/unigram.h"
#include "tok/word_table.h"

enum { MAX_RULES = 4, MAX_TEMPLATE = 8 };

// U+2581, which sentencepiece writes for a space. Here a space stands for it everywhere: in the
// bytes of entries and in normalised text.
#define SPACE_MARK "\xE2\x96\x81"

typedef struct added_token { // looked for in the text as it is, or in the normalised text
    const char *name;
    const unsigned char *text; // what is looked for, and what it decodes to
    int n;
    int32_t id;
    int32_t same;             // while loading: index + 1 of the one before with the same id
    bool special, normalized; // normalized: looked for in normalised text, as `text` is
    bool single_word;         // counts only where no word goes on beside it
    bool lstrip, rstrip;      // takes the white space before it, or after it
} added_token;

typedef struct added_group { // added tokens that begin with the same byte
    added_token *p;          // the longest first
    int n;
    int n_common; // bytes at the front that all of them have
    int *lengths; // of their texts, each once, the longest first
    int n_lengths;
} added_group;

typedef struct added_index {
    added_group by_byte[256];
    added_token **slots; // by text, open addressing; NULL: empty
    uint64_t mask;
    int n_groups;
    unsigned char first; // of the only group
} added_index;

typedef struct merge_to {
    int32_t rank, merged; // rank INT32_MAX: no merge
} merge_to;

// A cache line of the merge table. A line is filled from the front, and the next one takes what has
// no room. All of it is compared without a branch, so that the two merges that a new symbol may
// take part in are fetched at the same time.
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

typedef enum space_prefix { // what is put in front of a text of the sentencepiece style
    PREFIX_NONE,
    PREFIX_ALWAYS, // normalizer Prepend
    PREFIX_UNLESS, // Metaspace "always": unless a space is there
    PREFIX_FIRST,  // Metaspace "first": the same, before the first part only
} space_prefix;

// The bytes for which a token stands. An entry that is not in the vocabulary's alphabet (a raw
// space among GPT-2's stand-ins) stands for itself: it decodes, but no text reaches it.
typedef struct token_bytes {
    const unsigned char *p; // NULL: no such id
    int32_t n;
    bool as_written;
} token_bytes;

// A slot of the table of entries. The hash alone rejects most words that are not entries, without
// comparing bytes.
typedef struct entry_slot {
    uint32_t tag;  // upper half of the hash
    int32_t entry; // in tokenizer.entries; -1: empty
} entry_slot;

struct tokenizer {        // immutable after opening, but for `words`
    const char *path;     // of tokenizer.json
    int32_t n_vocab;      // largest id + 1
    token_bytes *entries; // by id: what the vocabulary has
    token_bytes *decoded; // by id: what it decodes to; added tokens go before entries
    int32_t n_entries;    // of the vocabulary: keys
    int32_t n_ids;        // of the vocabulary: its largest id + 1, then those of aliases
    int32_t *alias_id;    // ids of entries[n_ids ...]: keys whose id another key has too
    int32_t n_aliases;
    bool byte_level, ignore_merges, nfc;
    bool space_mark; // the sentencepiece style: U+2581 is a space
    bool metaspace;  // by a pre-tokenizer, so after the added tokens; else by a normalizer
    space_prefix prefix;
    text_steps steps;           // normalisers before the above
    bool parts_spaces;          // white space parts words and goes; then each has a space in front
    const piece_rules *rules;   // the normaliser of a sentencepiece model; NULL: the above is all
    const unigram *unigram;     // the model of normalised texts; NULL: BPE
    const piece_bpe *piece_bpe; // BPE that no merges say; NULL: merges do
    bool strip_space;           // the decoder takes one space off the front
    bool decodes_keys;   // to what the vocabulary has written: no decoder makes bytes of stand-ins,
                         // or spaces of U+2581
    bool joins_by_space; // no decoder at all: tokens with spaces between them
    split_rule rule[MAX_RULES]; // applied one after the other
    int n_rules;
    int32_t byte_id[256];     // byte-level: of each byte; -1: none
    int32_t fallback_id[256]; // <0xXX>; -1: none, or no byte_fallback
    bool all_bytes;           // each byte has an id, by one or the other
    bool decodes_bytes;       // <0xXX> decodes to a byte
    int32_t ascii_id[128];    // of each character; -1: none
    int32_t unknown;          // -1: none
    bool fuse_unknown;        // neighbours that are unknown become one
    merge_line *merges;
    uint64_t merge_mask;
    merge_to *byte_merges;  // byte-level, with all bytes: of two bytes, at 256 * left + right
    entry_slot *word_slots; // bytes -> id, open addressing
    uint64_t word_mask;
    added_token *added;
    int n_added;
    added_token **added_slots; // by name, open addressing; NULL: empty
    uint64_t added_mask;
    added_index raw, normalized; // the added tokens, by where they are looked for
    bool can_cut; // texts may be cut where split_cut says: no added token reaches across, nor a
                  // merge
    int32_t before[MAX_TEMPLATE], after[MAX_TEMPLATE]; // special ids around a text
    int n_before, n_after;
    bool *is_special;            // by id
    bool splits_special;         // special tokens in a text are text
    int32_t role[N_TOKEN_ROLES]; // ids; -1: none
    word_table *words;
};

// Returns the merge of two ids.
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
// Writes a vocabulary entry as the bytes that it stands for in a word: never longer than the key,
// and `out` may be it.
size_t entry_to_bytes(const tokenizer *tok, const char *key, size_t n_key, unsigned char *out,
        bool *as_written);
// Returns the added token with this text in an index; NULL: none.
const added_token *added_with_text(const added_index *x, const void *text, size_t n);
// Returns the added token with this name; NULL: none.
const added_token *added_with_name(const tokenizer *t, const char *name);
// Id of an entry by its key in tokenizer.json, valid UTF-8; -1: none.
int32_t tokenizer_entry(const tokenizer *t, const char *key, size_t n);
// Id of the entry that stands for these bytes of a text; -1: none.
int32_t tokenizer_word(const tokenizer *t, const void *p, size_t n);
// Returns whether normalising can change a text.
static inline bool tokenizer_normalizes(const tokenizer *t) {
    return t->nfc || t->rules || t->steps.n || (t->space_mark && !t->metaspace);
}
// Appends the normalised form of a part of a text: the steps, NFC, a space for U+2581, and one
// before it under PREFIX_ALWAYS.
void tokenizer_normalize(const tokenizer *t, const void *text, size_t n, str *out);
// NFC alone, where the tokenizer has it; else a copy.
void tokenizer_compose(const tokenizer *t, const void *text, size_t n, str *out);

// Byte <-> the printable character that stands for it in byte-level vocabularies (GPT-2's table).
uint32_t byte_char(int byte);
int char_byte(uint32_t cp); // -1: none
