// Functions that the readers of a tokenizer.json share: tokenizer_json.c (its settings) and the
// files load_*.c.
#pragma once
#include "base/json.h"
#include "base/json_cursor.h"
#include "tok/tokenizer_internal.h"

typedef struct loader {
    arena *a;
    const char *path;
    tokenizer *t;
    json_cursor vocab, merges; // the two large values, which the JSON tree leaves out
    const int32_t *ranks;      // priority of each merge; NULL: its index in the list
    bool keeps_ids;            // the file's own added tokens keep the ids that it gives
    int32_t n_new;             // added tokens that are not in the vocabulary
    int n_other_ids;           // added tokens whose id differs from the file's
    int n_beside;              // tokens with new ids that only files beside tokenizer.json name
    const char *first_beside;  // the first of them
    bool merges_bytes;         // some merge involves a byte-fallback token
    bool template;             // the post-processors read so far include a template
    bool fused;                // the decoders read so far join the tokens into one text
    token_bytes *keys;         // by id: entries as the file spells them; only if t->decodes_keys
    json_t *config, *map;      // tokenizer_config.json, special_tokens_map.json; NULL: not there
    bool has_decoder; // the config defines all added tokens, so the map is ignored for them
} loader;

// Returns DRV_E_DATA with a message that names what is not supported.
drv_status loader_refuse(const loader *l, const char *what, const char *value);

DRV_CHECKED drv_status loader_check_utf8(const loader *l, const str *s);

// Load one part each: called in this order, after all settings except the post-processor.
DRV_CHECKED drv_status load_vocab(loader *l);
void load_bytes(loader *l, bool byte_fallback);
DRV_CHECKED drv_status load_merges(loader *load);
// Finds the pairs of bytes that are in no entry of the vocabulary, hence in no merge: a text may be
// cut between them. Requires that every byte has an id (one without is dropped or fused, so its
// neighbours become adjacent), and no ignore_merges, which looks up whole texts.
void load_joins(loader *l);
// Reads the files beside tokenizer.json, and lists the tokens that they add to its own.
DRV_CHECKED drv_status load_beside(loader *load, const json_t *own, json_t **out);
const char *loader_beside(const loader *l, const char *name); // the path of such a file
// Reads such a file, a JSON object; leaves *out as it is if there is no such file.
DRV_CHECKED drv_status loader_read_beside(const loader *l, const char *name, json_t **out);
// Returns the text of a token in such a file: a string, or an object with "content". NULL: neither.
const char *loader_token_text(const json_t *value);
// Loads the added tokens: `list`, and `beside`, which files beside tokenizer.json add.
DRV_CHECKED drv_status load_added(loader *load, const json_t *list, const json_t *beside);
// Loads the roles of special tokens; needs all of the above and the post-processor.
DRV_CHECKED drv_status load_roles(loader *l);
// Writes a vocabulary as in tokenizer.json, for models that store it in other forms. `ids` NULL:
// the id of a token is its index.
void loader_write_vocabulary(const str_view *tokens, const int32_t *ids, int64_t n, str *out);
// Reads such a vocabulary and its merges.
DRV_CHECKED drv_status loader_read_vocabulary(loader *load, const str *vocab, const str *merges,
        bool byte_fallback);
// Loads the vocabulary of a unigram model, after the settings that say how it writes spaces.
DRV_CHECKED drv_status load_unigram(loader *load, const json_t *model);
// Loads a whole tokenizer from the bytes of a model file (model_file.h) in place of tokenizer.json.
DRV_CHECKED drv_status load_model_file(loader *load, const void *bytes, size_t n);
