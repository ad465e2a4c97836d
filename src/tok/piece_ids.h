// Ids of the pieces that a model of sentencepiece has found in a text. What is unknown gives the
// ids of its bytes, or the unknown id, once for neighbours.
#pragma once
#include "tok/tokenizer.h"

typedef struct piece_ids {
    int32_t unknown;
    const int32_t *byte_id; // of each byte; NULL: no byte fallback
    bool escapes_spaces;    // a space of the text is U+2581 in pieces
    id_list *out;
    offset_list *begins; // where in the text each id begins; NULL: nobody asks
    int64_t first;       // of the ids of this text in `out`
} piece_ids;

static inline void piece_ids_add(piece_ids *to, int32_t id, int64_t begin) {
    id_list_add(to->out, id);
    if (!to->begins) return;
    MEM_GROW(to->begins->p, to->begins->n, to->begins->cap);
    to->begins->p[to->begins->n++] = begin;
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

// Takes the bytes [begin, end) of the text, which are the piece `id`.
static inline void piece_ids_put(piece_ids *to, int32_t id, const unsigned char *text,
        int64_t begin, int64_t end) {
    const id_list *out = to->out;
    if (id == to->unknown && to->byte_id)
        piece_ids_add_bytes(to, text, begin, end);
    else if (id != to->unknown || out->n == to->first || out->p[out->n - 1] != id)
        piece_ids_add(to, id, begin);
}
