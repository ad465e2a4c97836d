// Tokenizers: Hugging Face tokenizer.json with a unigram or BPE model, byte-level (GPT-2, Llama-3)
// or sentencepiece-style with byte fallback (Llama-2, TinyLlama), and model files of sentencepiece
// and tiktoken (model_file.h). A feature that is not supported is refused by name on opening.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "tok/token_role.h"

typedef struct tokenizer tokenizer; // immutable after opening, except for the cache of words

// Opens a tokenizer. `path`: the file, or the folder that holds tokenizer.json or a model file.
DRV_CHECKED drv_status tokenizer_open(arena *a, const char *path, tokenizer **out);
void tokenizer_close(tokenizer *t);

const char *tokenizer_path(const tokenizer *t); // of tokenizer.json
int32_t tokenizer_n_vocab(const tokenizer *t);  // largest id + 1
// Returns the id of the special token with a role; -1: none. Sources, the first that exists:
// tokenizer_config.json and special_tokens_map.json next to tokenizer.json (null: no such token),
// template and unk_token of tokenizer.json, the usual names.
int32_t tokenizer_role(const tokenizer *t, token_role role);
// Returns the text of a token for messages: the whole name of an added token, at most 63 bytes of
// any other; bytes that are not text as \xNN, "?" for an id that does not exist. The text belongs
// to the tokenizer, or is overwritten 8 calls later in this thread.
const char *tokenizer_token_text(const tokenizer *tok, int32_t id);
// Returns the XXH3-64 of the texts of ids 0 to n - 1, in order: equal for tokenizers that give
// these ids the same texts. Ids without a token are part of the hash.
uint64_t tokenizer_texts_hash(const tokenizer *t, int64_t n);
// Returns whether texts may be cut where split_cut says: no added token and no merge crosses the
// cut.
bool tokenizer_can_cut(const tokenizer *t);
// Returns the last offset in (0, n) at which a long text may be cut so that its pieces have the
// words of the whole: between a letter and a space before another letter; 0 if there is none. Right
// only if tokenizer_can_cut.
size_t split_cut(const void *text, size_t n);
int32_t tokenizer_id(const tokenizer *t, const char *text); // -1: no such token
// An added token, as defined by tokenizer.json or the files beside it.
typedef struct tokenizer_added {
    int32_t id;
    const char *text; // belongs to the tokenizer
    bool special, normalized, single_word, lstrip, rstrip;
} tokenizer_added;
// Reads the i-th added token, counted from 0. False: there are no more.
bool tokenizer_added_at(const tokenizer *t, int i, tokenizer_added *out);
// Returns whether a token is an added one, which only matches as a whole in a text.
bool tokenizer_is_added(const tokenizer *t, int32_t id);

typedef struct id_list {
    int32_t *p;
    int64_t n, cap;
} id_list;
void id_list_add(id_list *l, int32_t id);
void id_list_append(id_list *l, const int32_t *ids, int64_t n);
void id_list_reserve(id_list *l, int64_t more); // makes room for `more` ids after the last
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
// Appends the ids of a piece. `specials`: with those that the post-processor puts around a text.
void encoder_piece(encoder *e, const text_piece *p, bool specials, id_list *out);
// Encodes a whole text.
void encoder_run(encoder *e, const void *text, size_t n, bool specials, id_list *out);
typedef struct offset_list {
    int64_t *p;
    int64_t n, cap;
} offset_list;
void offset_list_add(offset_list *l, int64_t offset);
void offset_list_free(offset_list *l);
// The same, and appends to `begins` the byte of the piece at which each id begins: these never
// decrease, and an id ends where the next begins. Slower; meant for short texts.
void encoder_piece_traced(encoder *e, const text_piece *p, bool specials, id_list *out,
        offset_list *begins);
// Drops the first ids from `first` on if they repeat those that the post-processor puts in front of
// a text, because a chat template has already put them there. `begins`: where the ids begin; may be
// NULL. Returns whether it dropped any.
bool tokenizer_begin_once(const tokenizer *t, id_list *ids, int64_t first, offset_list *begins);
// Clears the cache of words if it is nearly full. Call it between parallel sections.
void tokenizer_tidy(const tokenizer *t);

// Appends the text of ids; invalid UTF-8 becomes U+FFFD as in Hugging Face. skip_special leaves out
// special tokens.
void tokenizer_decode(const tokenizer *tok, const int32_t *ids, int64_t n_ids, bool skip_special,
        str *out);

// Appends the bytes for which an id stands inside a text, possibly part of a character; nothing for
// a special token or an id that does not exist.
void tokenizer_add_bytes(const tokenizer *tok, int32_t id, str *out);

// A decoder of a growing sequence of ids, which appends only complete characters.
typedef struct stream_decoder {
    const tokenizer *t;
    str pending;
    bool started;
} stream_decoder;
void stream_decoder_add(stream_decoder *stream, int32_t id, str *out);

// Appends text, with U+FFFD for each maximal invalid part; returns the number of these parts.
int64_t utf8_sanitize(const void *text, size_t n_bytes, str *out);
