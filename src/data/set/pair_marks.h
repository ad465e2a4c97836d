// Marks of preference pairs: the positions that a run needs to pack pairs into rows. `drover data
// build` stores them in PREFIX.pairs (docs/formats.md), so that a run does not read every token of
// the set at its start.
#pragma once
#include "data/set/dataset.h"

typedef struct pair_mark {
    int32_t apart; // index of the first token in which the two documents differ; if there is none,
                   // the length of the shorter one
    int32_t answer[2]; // in the chosen and the rejected document: index of the token before the
                       // first token of the response; if there is none, the document's length less
                       // one
} pair_mark;

// Returns the marks of pairs [first, first + n). They come from PREFIX.pairs if its hash is that in
// PREFIX.idx.json. If the hash differs (which is logged as a warning), or PREFIX.idx.json has none,
// the tokens are read instead.
DRV_CHECKED drv_status pair_marks_read(const dataset *set, int64_t first, int64_t n,
        pair_mark *out);
// Parses the marks of n pairs from the content of PREFIX.pairs, whose hash must be `hash` (XXH3-64,
// 16 hexadecimal digits). DRV_E_DATA: size, hash or a mark is wrong; `path` is for the message.
DRV_CHECKED drv_status pair_marks_parse(const char *path, const void *bytes, size_t n_bytes,
        const char *hash, int64_t n, pair_mark *out);
// Computes the marks of the set's n pairs, writes PREFIX.pairs, and returns its hash in `hash`, 17
// bytes with the NUL.
DRV_CHECKED drv_status pair_marks_write(const dataset *set, int64_t n, char *hash);
// Compares PREFIX.pairs, if PREFIX.idx.json names it, with the tokens. DRV_E_DATA names the pair.
DRV_CHECKED drv_status pair_marks_verify(const dataset *set);
