// Hugging Face tokenizer.json with a BPE model: byte-level (GPT-2, Llama-3, SmolLM2) and
// sentencepiece-style with byte fallback (Llama-2, TinyLlama). What is not supported is refused by
// name when the file is opened.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "tok/split.h"
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
    bool special, normalized; // normalized: `text` is too
} added_token;

typedef struct added_group { // added tokens that begin with the same byte
    added_token *p;          // the longest first
    int n;
    int n_common; // bytes at the front that all of them have
} added_group;

typedef struct added_index {
    added_group by_byte[256];
    int n_groups;
    unsigned char first; // of the only group
} added_index;

typedef struct pair_rank { // one slot of the merge table
    uint64_t pair;         // left << 32 | right; UINT64_MAX: empty
    int32_t rank, merged;
} pair_rank;

typedef struct merge_to {
    int32_t rank, merged; // rank INT32_MAX: no merge
} merge_to;

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

typedef struct tokenizer {       // immutable after opening, but for `words`
    const char *path;            // of tokenizer.json
    int32_t n_vocab;             // largest id + 1
    const unsigned char **bytes; // by id: what it decodes to; NULL: no such id
    int *n_bytes;
    bool byte_level, ignore_merges, nfc;
    bool space_mark; // the sentencepiece style: U+2581 is a space
    bool metaspace;  // by a pre-tokenizer, so behind the added tokens; else by a normalizer
    space_prefix prefix;
    bool strip_space;           // the decoder takes one space off the front
    split_rule rule[MAX_RULES]; // applied one after the other
    int n_rules;
    int32_t byte_id[256];  // byte-level: of each byte; else <0xXX>; -1: none
    int32_t ascii_id[128]; // of each character; -1: none
    int32_t unknown;       // -1: none
    bool fuse_unknown;     // neighbours that are unknown become one
    pair_rank *merges;
    uint64_t merge_mask;
    merge_to *byte_merges; // byte-level: of two bytes, at 256 * left + right
    int32_t *word_slots;   // bytes -> id, open addressing; -1: empty
    uint64_t word_mask;
    added_token *added;
    int n_added;
    added_index raw, normalized; // the added tokens, by where they are looked for
    bool can_cut; // texts may be cut where split_cut says: no added token reaches across, nor a
                  // merge
    int32_t before[MAX_TEMPLATE], after[MAX_TEMPLATE]; // special ids around a text
    int n_before, n_after;
    bool *is_special; // by id
    int32_t bos, eos; // by name, else by the template; -1: none
    word_table *words;
} tokenizer;

// `path`: the file, or the folder that holds tokenizer.json.
DRV_CHECKED drv_status tokenizer_open(arena *a, const char *path, tokenizer **out);
void tokenizer_close(tokenizer *t);
// Id of a vocabulary entry as bytes; -1: none.
int32_t tokenizer_word(const tokenizer *t, const void *p, size_t n);
int32_t tokenizer_id(const tokenizer *t, const char *text); // of vocabulary or added; -1: none

// Appends the normalised form of a part of a text: NFC, a space for U+2581 and one in front.
void tokenizer_normalize(const tokenizer *t, const void *text, size_t n, str *out);

typedef struct id_list {
    int32_t *p;
    int64_t n, cap;
} id_list;
void id_list_add(id_list *l, int32_t id);
void id_list_append(id_list *l, const int32_t *ids, int64_t n);
void id_list_reserve(id_list *l, int64_t more); // room for so many behind the last
void id_list_free(id_list *l);

typedef struct text_piece { // valid UTF-8, not owned
    const char *p;
    size_t n;
    bool begins, ends; // the first piece of its text; the last
} text_piece;

// Working memory of one thread.
typedef struct encoder encoder;
encoder *encoder_new(const tokenizer *t);
void encoder_free(encoder *e);
// Appends the ids. specials: with what the post-processor puts around a text.
void encoder_piece(encoder *e, const text_piece *p, bool specials, id_list *out);
// Of a whole text.
void encoder_run(encoder *e, const void *text, size_t n, bool specials, id_list *out);
// Between parallel sections: forgets the words that were seen when there are too many.
void tokenizer_tidy(const tokenizer *t);

// Appends the text of ids; invalid UTF-8 becomes U+FFFD as in Hugging Face. skip_special leaves out
// special tokens.
void tokenizer_decode(const tokenizer *t, const int32_t *ids, int64_t n, bool skip_special,
        str *out);

// Text of a growing sequence of ids: only whole characters are handed out.
typedef struct stream_decoder {
    const tokenizer *t;
    str pending;
    bool started;
} stream_decoder;
void stream_decoder_add(stream_decoder *d, int32_t id, str *out);

// Copies bytes, each maximal invalid part as U+FFFD; returns how many there were.
int64_t utf8_sanitize(const void *s, size_t n, str *out);

#define TRAINER_MEMORY       (4ll << 30)
#define TRAINER_LEAST_MEMORY (96ll << 20)

typedef struct tokenizer_train_opts {
    int64_t vocab_size;
    int64_t min_frequency; // of a pair that is merged
    const char *pattern;   // NULL: GPT-2's
    const char *const *specials;
    int n_specials; // they get the first ids
    int64_t memory; // bytes that the process may take; 0: TRAINER_MEMORY
} tokenizer_train_opts;

typedef struct trainer trainer;
trainer *trainer_new(const tokenizer_train_opts *o);
// Counts the words of a text; each thread in [0, par_threads()) may do so at the same time.
void trainer_add(trainer *t, const text_piece *p, int thread);
// Between parallel sections: keeps the counts within the memory that they may take.
DRV_CHECKED drv_status trainer_relieve(trainer *t);
// Merges, and writes tokenizer.json and tokenizer_config.json into `dir`.
DRV_CHECKED drv_status trainer_finish(trainer *t, const char *dir, int64_t *n_vocab);
void trainer_free(trainer *t);

// Byte <-> the printable character that stands for it in byte-level vocabularies (GPT-2's table).
uint32_t byte_char(int byte);
int char_byte(uint32_t cp); // -1: none
