// The normaliser of a sentencepiece model (its src/normalizer.cc): rules replace the longest
// matching prefix of the remaining text; then spaces are treated. The rules are compiled: the size
// of a trie in bytes (u32), the trie as a double array of Darts (github.com/s-yata/darts-clone),
// and the NUL-terminated texts at which its values point.
#pragma once
#include "tok/piece_model.h"
#include "tok/tokenizer.h"

typedef struct piece_rules piece_rules; // immutable

// Makes the rules of a model, whose texts must outlive them. *out is NULL if the model only puts a
// space in front and writes spaces as U+2581. DRV_E_DATA: the rules are broken.
DRV_CHECKED drv_status piece_rules_make(arena *a, const char *path, const piece_model *m,
        const piece_rules **out);
// Makes rules from a precompiled_charsmap, whose bytes must outlive them. DRV_E_DATA: broken.
DRV_CHECKED drv_status piece_rules_open_map(arena *a, const char *path, str_view map,
        const piece_rules **out);
// Appends a text as Hugging Face's tokenizers normalises it with such rules (its
// src/normalizers/precompiled.rs): each grapheme cluster, if it is short and has a rule, or else
// each code point, is replaced by the rule for its shortest prefix.
void piece_rules_apply_map(const piece_rules *rules, const void *text, size_t n_bytes, str *out,
        offset_list *origins);
// Appends the normalised text, with a space for U+2581 if the model escapes spaces. `origins`:
// receives the offset in the text from which each byte comes; may be NULL.
void piece_rules_apply(const piece_rules *rules, const void *text, size_t n_bytes, str *out,
        offset_list *origins);
