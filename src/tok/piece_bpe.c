// Merges the two adjacent symbols with the best score, the leftmost on a tie, until no two form a
// piece. A heap holds the pairs; a pair whose symbols have changed since is skipped.
#include "tok/piece_bpe.h"

#include <stdlib.h>
#include <string.h>

#include "tok/piece_ids.h"
#include "tok/score_merges.h"
#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

enum { MAX_DEPTH = 100 }; // of splitting an unused piece, as in sentencepiece

struct piece_bpe {
    const tokenizer *tok;
    const float *scores;  // by id
    const uint8_t *types; // piece_type, by id
    int32_t n;
    int32_t *unused; // by id: index of an unused piece among them; -1: used
    int32_t n_unused;
    int32_t unknown;
    bool byte_fallback, escapes_spaces;
};

// A symbol of the text; it has no bytes once it is merged into the symbol before it.
typedef struct symbol {
    int64_t begin, n;
    int64_t before, after; // indices of symbols; -1: none
} symbol;

typedef struct pair {
    float score;
    int64_t left, right, n; // symbols, and their bytes together when the pair was queued
} pair;

typedef struct merging {
    const piece_bpe *model;
    const unsigned char *text;
    symbol *symbols;
    int64_t n_symbols;
    pair *heap;
    int64_t n, cap;
    int64_t *left_bytes; // by index of an unused piece: bytes of its left half when it was last
                         // merged; 0: never
} merging;

static bool is_in_texts(uint8_t type) {
    return type == PIECE_NORMAL || type == PIECE_USER_DEFINED || type == PIECE_UNUSED;
}

// --- which models need it
static size_t first_bytes(str_view piece) { // of its first character
    const unsigned char *begin = (const unsigned char *)piece.p, *p = begin;
    utf8_next(&p);
    return (size_t)(p - begin);
}

// Returns whether a piece has a character that is not a piece, so that no merges make the piece.
static bool has_hidden_characters(const piece_model *m, const token_index *index) {
    for (int32_t id = 0; id < m->n; id++) {
        const unsigned char *p = (const unsigned char *)m->pieces[id].p, *end = p + m->pieces[id].n;
        while (is_in_texts(m->types[id]) && p < end) {
            const unsigned char *begin = p;
            utf8_next(&p);
            const size_t n = (size_t)(p - begin);
            const int32_t known = token_index_find(index, (const char *)begin, n);
            if (n < m->pieces[id].n && (known < 0 || !is_in_texts(m->types[known]))) return true;
        }
    }
    return false;
}

bool piece_bpe_is_needed(arena *a, const piece_model *pieces) {
    token_index index;
    for (int32_t id = 0; id < pieces->n; id++) {
        const bool single = pieces->pieces[id].n == first_bytes(pieces->pieces[id]);
        if (pieces->types[id] == PIECE_UNUSED || (single && !is_in_texts(pieces->types[id])))
            return true;
    }
    token_index_build(a, pieces->pieces, pieces->n, &index);
    return has_hidden_characters(pieces, &index);
}

piece_bpe *piece_bpe_make(arena *a, const piece_model *pieces, const tokenizer *tok) {
    piece_bpe *made = ARENA_NEW(a, piece_bpe);
    *made = (piece_bpe){.tok = tok,
            .scores = pieces->scores,
            .types = pieces->types,
            .n = pieces->n,
            .unused = ARENA_ARRAY(a, int32_t, pieces->n + 1),
            .unknown = pieces->unknown,
            .byte_fallback = pieces->byte_fallback,
            .escapes_spaces = pieces->escapes_spaces};
    for (int32_t id = 0; id < pieces->n; id++)
        made->unused[id] = pieces->types[id] == PIECE_UNUSED ? made->n_unused++ : -1;
    return made;
}

// Returns the piece with these bytes; -1: none that texts may contain.
static int32_t piece_of(const merging *m, int64_t begin, int64_t n) {
    const int32_t id = tokenizer_word(m->model->tok, m->text + begin, (size_t)n);
    return id >= 0 && id < m->model->n && is_in_texts(m->model->types[id]) ? id : -1;
}

// --- the heap
static bool is_before(const pair *x, const pair *y) {
    return x->score > y->score || (x->score == y->score && x->left < y->left);
}

static void push(merging *m, pair new) {
    MEM_GROW(m->heap, m->n, m->cap);
    int64_t i = m->n++;
    for (int64_t above; i > 0 && is_before(&new, &m->heap[above = (i - 1) / 2]); i = above)
        m->heap[i] = m->heap[above];
    m->heap[i] = new;
}

static pair pop(merging *m) {
    const pair best = m->heap[0], last = m->heap[--m->n];
    int64_t i = 0;
    for (int64_t below; (below = 2 * i + 1) < m->n; i = below) {
        if (below + 1 < m->n && is_before(&m->heap[below + 1], &m->heap[below])) below++;
        if (!is_before(&m->heap[below], &last)) break;
        m->heap[i] = m->heap[below];
    }
    if (m->n) m->heap[i] = last;
    return best;
}

static void add_pair(merging *m, int64_t left, int64_t right) {
    if (left < 0 || right < 0) return;
    const symbol *first = &m->symbols[left];
    const int64_t n = first->n + m->symbols[right].n;
    const int32_t id = piece_of(m, first->begin, n);
    if (id < 0) return;
    push(m, (pair){m->model->scores[id], left, right, n});
    if (m->model->unused[id] >= 0) m->left_bytes[m->model->unused[id]] = first->n;
}

// --- encoding
static void cut_symbols(merging *m, size_t n_bytes) {
    const unsigned char *p = m->text, *end = p + n_bytes;
    while (p < end) {
        const unsigned char *begin = p;
        utf8_next(&p);
        m->symbols[m->n_symbols] = (symbol){begin - m->text, p - begin, m->n_symbols - 1,
                p < end ? m->n_symbols + 1 : -1};
        m->n_symbols++;
    }
}

static void merge_all(merging *m) {
    for (int64_t i = 1; i < m->n_symbols; i++)
        add_pair(m, i - 1, i);
    while (m->n > 0) {
        const pair best = pop(m);
        symbol *left = &m->symbols[best.left], *right = &m->symbols[best.right];
        if (left->n == 0 || right->n == 0 || left->n + right->n != best.n) continue;
        left->n = best.n;
        left->after = right->after;
        if (right->after >= 0) m->symbols[right->after].before = best.left;
        right->n = 0;
        add_pair(m, left->before, best.left);
        add_pair(m, best.left, left->after);
    }
}

// Writes a piece. An unused one is split as it was last merged anywhere in the text, at most
// MAX_DEPTH levels deep; one that was never merged, a single character, is unknown.
static void put_piece(const merging *m, int64_t begin, int64_t n, int depth, piece_ids *to) {
    const piece_bpe *model = m->model;
    const int32_t id = piece_of(m, begin, n), unused = id >= 0 ? model->unused[id] : -1;
    const int64_t left = unused >= 0 ? m->left_bytes[unused] : 0;
    if (left && depth <= MAX_DEPTH) {
        put_piece(m, begin, left, depth + 1, to);
        put_piece(m, begin + left, n - left, depth + 1, to);
    } else {
        const bool known = id >= 0 && (unused < 0 || left);
        piece_ids_put(to, known ? id : model->unknown, m->text, begin, begin + n);
    }
}

void piece_bpe_encode(const piece_bpe *model, const void *text, size_t n_bytes, id_list *out,
        offset_list *begins) {
    merging m = {.model = model, .text = text};
    piece_ids to = {.unknown = model->unknown,
            .byte_id = model->byte_fallback ? model->tok->fallback_id : NULL,
            .escapes_spaces = model->escapes_spaces,
            .out = out,
            .begins = begins,
            .first = out->n};
    if (n_bytes == 0) return;
    m.symbols = mem_alloc(sizeof *m.symbols * n_bytes);
    m.left_bytes = mem_alloc(sizeof *m.left_bytes * ((size_t)model->n_unused + 1));
    memset(m.left_bytes, 0, sizeof *m.left_bytes * ((size_t)model->n_unused + 1));
    cut_symbols(&m, n_bytes);
    merge_all(&m);
    for (int64_t i = 0; i >= 0; i = m.symbols[i].after)
        put_piece(&m, m.symbols[i].begin, m.symbols[i].n, 0, &to);
    free(m.symbols);
    free(m.left_bytes);
    free(m.heap);
}
