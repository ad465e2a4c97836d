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
    int32_t n_new;             // added tokens that the vocabulary does not have
    int n_other_ids;           // added tokens that have another id than the file says
    bool merges_bytes;         // a merge has a byte-fallback token in it
    bool template;             // the post-processor so far has one
    bool fused;                // the decoder so far has made one text of the tokens
    token_bytes *keys;         // by id: entries as the file writes them; if tokenizer->decodes_keys
} loader;

// DRV_E_DATA: what is not supported, by name.
drv_status loader_refuse(const loader *l, const char *what, const char *value);

DRV_CHECKED drv_status loader_check_utf8(const loader *l, const str *s);

// Each loads a part, in this order, after all settings but the post-processor.
DRV_CHECKED drv_status load_vocab(loader *l);
void load_bytes(loader *l, bool byte_fallback);
DRV_CHECKED drv_status load_merges(loader *load);
// Finds the bytes between which no entry of the vocabulary reaches across, and so no merge: the
// text may be cut there. Only if every byte has an id: what has none goes away or is fused, and
// brings others together. Not with ignore_merges, which looks for the text as a whole.
void load_joins(loader *l);
DRV_CHECKED drv_status load_added(loader *load, const json_t *list);
// Loads the roles of special tokens; needs all of the above and the post-processor.
DRV_CHECKED drv_status load_roles(loader *l);
