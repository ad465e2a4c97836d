// Collects the ids of the pieces that a sentencepiece model finds in a text. An unknown piece gives
// the ids of its bytes, or else the unknown id, once for adjacent unknown pieces.
#pragma once
#include "tok/tokenizer.h"

typedef struct piece_ids {
    int32_t unknown;
    const int32_t *byte_id; // id of each byte; NULL: no byte fallback
    bool escapes_spaces;    // pieces write a space of the text as U+2581
    id_list *out;
    offset_list *begins; // byte of the text at which each id begins; NULL: not wanted
    int64_t first;       // index in `out` of this text's first id
} piece_ids;

static inline void piece_ids_add(piece_ids *to, int32_t id, int64_t begin) {
    id_list_add(to->out, id);
    if (to->begins) offset_list_add(to->begins, begin);
}

static inline void piece_ids_add_bytes(piece_ids *to, const unsigned char *text, int64_t begin,
        int64_t end) {
    static const unsigned char mark[] = "\xE2\x96\x81";
    for (int64_t i = begin; i < end; i++) {
        const bool space = to->escapes_spaces && text[i] == ' ';
        for (int k = 0; k < (space ? 3 : 1); k++)
            piece_ids_add(to, to->byte_id[space ? mark[k] : text[i]], i);
    }
}

// Adds the ids of the piece `id`, the bytes [begin, end) of the text.
static inline void piece_ids_put(piece_ids *to, int32_t id, const unsigned char *text,
        int64_t begin, int64_t end) {
    const id_list *out = to->out;
    if (id == to->unknown && to->byte_id)
        piece_ids_add_bytes(to, text, begin, end);
    else if (id != to->unknown || out->n == to->first || out->p[out->n - 1] != id)
        piece_ids_add(to, id, begin);
}
