// Tokenizers: Hugging Face tokenizer.json with a BPE model, byte-level (GPT-2, Llama-3, SmolLM2)
// and sentencepiece-style with byte fallback (Llama-2, TinyLlama), and model files of sentencepiece
// and tiktoken (model_file.h). What is not supported is refused by name when the file is opened.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef struct tokenizer tokenizer; // immutable after opening, but for the words it has seen

// Opens a tokenizer. `path`: the file, or the folder that holds tokenizer.json or a model file.
DRV_CHECKED drv_status tokenizer_open(arena *a, const char *path, tokenizer **out);
void tokenizer_close(tokenizer *t);

const char *tokenizer_path(const tokenizer *t); // of tokenizer.json
int32_t tokenizer_n_vocab(const tokenizer *t);  // largest id + 1
// Return the ids of the special tokens by role; -1: none. tokenizer_config.json and
// special_tokens_map.json decide where they lie beside tokenizer.json (null: none), else its
// template and unk_token, else the usual names.
int32_t tokenizer_bos(const tokenizer *t);
int32_t tokenizer_eos(const tokenizer *t);
int32_t tokenizer_pad(const tokenizer *t);
int32_t tokenizer_unk(const tokenizer *t);
// Returns the text of a token for messages: the whole name of an added token, at most 63 bytes of
// any other; bytes that are not text as \xNN, "?" for an id that does not exist. Belongs to the
// tokenizer, or is overwritten 8 calls later in this thread.
const char *tokenizer_token_text(const tokenizer *tok, int32_t id);
// Returns the XXH3-64 of the texts of the ids below n, in order; equal for tokenizers in which
// these ids mean the same. Ids without a token are part of the hash.
uint64_t tokenizer_texts_hash(const tokenizer *t, int64_t n);
// Returns whether texts may be cut where split_cut says: no added token reaches across, nor a
// merge.
bool tokenizer_can_cut(const tokenizer *t);
// Finds a place to cut a long text so that its pieces have the words of the whole: the last one in
// (0, n), between a letter and a space that a letter follows; 0 if there is none. tokenizer_can_cut
// says where that is right.
size_t split_cut(const void *text, size_t n);
int32_t tokenizer_id(const tokenizer *t, const char *text); // of vocabulary or added; -1: none
// An added token, as tokenizer.json or the files beside it have it.
typedef struct tokenizer_added {
    int32_t id;
    const char *text; // belongs to the tokenizer
    bool special, normalized, single_word, lstrip, rstrip;
} tokenizer_added;
// Gives the i-th added token, i from 0. False: there are no more.
bool tokenizer_added_at(const tokenizer *t, int i, tokenizer_added *out);
// Returns whether a token is an added one, which is found in a text whole or not at all.
bool tokenizer_is_added(const tokenizer *t, int32_t id);

typedef struct id_list {
    int32_t *p;
    int64_t n, cap;
} id_list;
void id_list_add(id_list *l, int32_t id);
void id_list_append(id_list *l, const int32_t *ids, int64_t n);
void id_list_reserve(id_list *l, int64_t more); // room for `more` after the last
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
// Appends the ids. `specials`: with what the post-processor puts around a text.
void encoder_piece(encoder *e, const text_piece *p, bool specials, id_list *out);
// Encodes a whole text.
void encoder_run(encoder *e, const void *text, size_t n, bool specials, id_list *out);
typedef struct offset_list {
    int64_t *p;
    int64_t n, cap;
} offset_list;
void offset_list_free(offset_list *l);
// The same, and for each id the byte of the piece at which it begins: these never decrease, and an
// id ends where the next one begins. Slower: for short texts whose parts must be told apart.
void encoder_piece_traced(encoder *e, const text_piece *p, bool specials, id_list *out,
        offset_list *begins);
// Drops ids from `first` on that repeat what the post-processor puts in front of a text: a text
// that went through a chat template has it already. `begins`: where they begin, from `first` on;
// NULL. Returns whether there were any.
bool tokenizer_begin_once(const tokenizer *t, id_list *ids, int64_t first, offset_list *begins);
// Between parallel sections: forgets the words seen so far when there are too many.
void tokenizer_tidy(const tokenizer *t);

// Appends the text of ids; invalid UTF-8 becomes U+FFFD as in Hugging Face. skip_special leaves out
// special tokens.
void tokenizer_decode(const tokenizer *tok, const int32_t *ids, int64_t n_ids, bool skip_special,
        str *out);

// Appends the bytes that one id stands for within a text, which may be a part of a character; none
// for a special token and an id that is none.
void tokenizer_add_bytes(const tokenizer *tok, int32_t id, str *out);

// Decodes a growing sequence of ids; returns only complete characters.
typedef struct stream_decoder {
    const tokenizer *t;
    str pending;
    bool started;
} stream_decoder;
void stream_decoder_add(stream_decoder *stream, int32_t id, str *out);

// Copies bytes, each maximal invalid part as U+FFFD; returns how many there were.
int64_t utf8_sanitize(const void *text, size_t n_bytes, str *out);
