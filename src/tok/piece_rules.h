// The normaliser of a sentencepiece model (src/normalizer.cc there): rules that replace the longest
// beginning of what is left of a text, then spaces. The rules are compiled: u32 bytes of a trie,
// the trie as a double array of Darts (github.com/s-yata/darts-clone), and the texts that its
// values point at, each ended by a NUL.
#pragma once
#include "tok/piece_model.h"
#include "tok/tokenizer.h"

typedef struct piece_rules piece_rules; // immutable

// Makes the rules of a model, whose texts it uses. *out is NULL where they are none but
// a space in front and U+2581 for spaces. DRV_E_DATA: the rules are broken.
DRV_CHECKED drv_status piece_rules_make(arena *a, const char *path, const piece_model *m,
        const piece_rules **out);
// Opens rules alone, the bytes of precompiled_charsmap, which are used. DRV_E_DATA: they are broken.
DRV_CHECKED drv_status piece_rules_open_map(arena *a, const char *path, str_view map,
        const piece_rules **out);
// Appends what tokenizers makes of a text by such rules (src/normalizers/precompiled.rs there):
// they replace what a reader takes for one character, if it is short, or else its code points, by
// the rule of their shortest beginning.
void piece_rules_apply_map(const piece_rules *rules, const void *text, size_t n_bytes, str *out,
        offset_list *origins);
// Appends the normalised text, a space for U+2581 where the model writes spaces so. `origins`: gets
// for each byte the place in the text from which it comes; NULL.
void piece_rules_apply(const piece_rules *rules, const void *text, size_t n_bytes, str *out,
        offset_list *origins);
