// The readers of a tokenizer.json share these: tokenizer_json.c (its settings) and the files
// load_*.c.
#pragma once
#include "base/json.h"
#include "base/json_cursor.h"
#include "tok/tokenizer_internal.h"

typedef struct loader {
    arena *a;
    const char *path;
    tokenizer *t;
    json_cursor vocab, merges; // the two large values: not part of the tree
    const int32_t *ranks;      // of the merges; NULL: their places in the list
    bool keeps_ids;            // added tokens of its own have the ids that are given
    int32_t n_new;             // added tokens that the vocabulary does not have
    int n_other_ids;           // added tokens that have another id than the file says
    int n_beside;              // tokens that only files beside tokenizer.json have
    const char *first_beside;  // one of them
    bool merges_bytes;         // a merge has a byte-fallback token in it
    bool template;             // the post-processor so far has one
    bool fused;                // the decoder so far has made one text of the tokens
    token_bytes *keys;         // by id: entries as the file writes them; if tokenizer->decodes_keys
    json_t *config, *map;      // tokenizer_config.json, special_tokens_map.json; NULL: not there
    bool has_decoder;          // the config defines all added tokens: the map is ignored for them
} loader;

// DRV_E_DATA: what is not supported, by name.
drv_status loader_refuse(const loader *l, const char *what, const char *value);

DRV_CHECKED drv_status loader_check_utf8(const loader *l, const str *s);

// Each loads a part, in this order, after all settings but the post-processor.
DRV_CHECKED drv_status load_vocab(loader *l);
void load_bytes(loader *l, bool byte_fallback);
DRV_CHECKED drv_status load_merges(loader *load);
// Finds the pairs of bytes that no entry of the vocabulary contains, hence no merge: a text may be
// cut between them. Requires that every byte has an id, since a byte without one is dropped or
// fused, which makes its neighbours adjacent, and no ignore_merges, which looks up the whole text.
void load_joins(loader *l);
// Reads the files beside tokenizer.json, and lists the tokens that they add to its own.
DRV_CHECKED drv_status load_beside(loader *load, const json_t *own, json_t **out);
const char *loader_beside(const loader *l, const char *name); // the path of such a file
// Reads one, an object; *out stays as it is where there is none.
DRV_CHECKED drv_status loader_read_beside(const loader *l, const char *name, json_t **out);
// Returns the text of a token in such a file: a string, or an object with "content"; NULL: neither.
const char *loader_token_text(const json_t *value);
// `beside`: more tokens, which files beside tokenizer.json add.
DRV_CHECKED drv_status load_added(loader *load, const json_t *list, const json_t *beside);
// Loads the roles of special tokens; needs all of the above and the post-processor.
DRV_CHECKED drv_status load_roles(loader *l);
// Write a vocabulary, and read it with its merges, as tokenizer.json has them, for models that have
// them in other forms. `ids`: NULL: the places of the tokens.
void loader_write_vocabulary(const str_view *tokens, const int32_t *ids, int64_t n, str *out);
DRV_CHECKED drv_status loader_read_vocabulary(loader *load, const str *vocab, const str *merges,
        bool byte_fallback);
// Loads the vocabulary of a unigram model, after the settings that say what a space is in it.
DRV_CHECKED drv_status load_unigram(loader *load, const json_t *model);
// Loads a whole tokenizer from the bytes of a model file (model_file.h) in place of tokenizer.json.
DRV_CHECKED drv_status load_model_file(loader *load, const void *bytes, size_t n);
