// Marks of preference pairs: all that a run has to know of the tokens of a pair before it packs it
// into rows. `drover data build` keeps them in PREFIX.pairs (docs/formats.md), so that a run does
// not read every token of the set when it begins.
#pragma once
#include "data/set/dataset.h"

typedef struct pair_mark {
    int32_t apart;     // first token in which the two documents differ; the tokens of the shorter
                       // one where there is none
    int32_t answer[2]; // of the chosen and the rejected document: the first token after which one
                       // of the response comes; one less than its tokens where there is none
} pair_mark;

// Marks of pairs [first, first + n) of a set of pairs. They are PREFIX.pairs's; where that file is
// not the one that PREFIX.idx.json names, which is warned of, and where it names none, as in sets
// that were built before there were such files, the tokens are read.
DRV_CHECKED drv_status pair_marks_read(const dataset *set, int64_t first, int64_t n,
        pair_mark *out);
// Takes the marks of n pairs from the bytes of PREFIX.pairs, of this hash (XXH3-64, 16 hexadecimal
// digits). DRV_E_DATA: they are not those of such a file; `path` is for the message.
DRV_CHECKED drv_status pair_marks_parse(const char *path, const void *bytes, size_t n_bytes,
        const char *hash, int64_t n, pair_mark *out);
// Writes PREFIX.pairs for the set of n pairs that lies there, and its hash, 17 bytes with the NUL.
DRV_CHECKED drv_status pair_marks_write(const dataset *set, int64_t n, char *hash);
// Compares PREFIX.pairs, if PREFIX.idx.json names it, with the tokens. DRV_E_DATA names the pair.
DRV_CHECKED drv_status pair_marks_verify(const dataset *set);
