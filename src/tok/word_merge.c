// Merges one word: a short one by linear search, a long one with a heap.
#include "tok/word_merge.h"

#include <stdlib.h>

#include "base/heap.h"
#include "tok/unicode.h"

enum { SHORT_WORD = 24 }; // symbols up to which the lowest rank is found by linear search

typedef struct piece { // a symbol of a long word, in a doubly linked list
    int32_t id, prev, next;
} piece;

typedef struct candidate {         // a possible merge of piece `at` with its right neighbour
    int32_t rank, at, left, right; // ids when it was found: stale if they changed
} candidate;

struct merger {
    const tokenizer *t;
    int32_t *symbols;
    piece *pieces;
    candidate *heap;
    int64_t cap_symbols, cap_pieces, n_heap, cap_heap;
};

merger *merger_new(const tokenizer *t) {
    merger *m = mem_alloc_lines(sizeof *m);
    *m = (merger){.t = t};
    return m;
}

void merger_free(merger *m) {
    if (!m) return;
    free(m->symbols);
    free(m->pieces);
    free(m->heap);
    free(m);
}

typedef struct symbol_writer {
    int32_t *p;
    int64_t n;
    bool unknown; // an unknown token is pending: with fuse_unk its neighbours join it
} symbol_writer;

static inline void write_known(const tokenizer *t, symbol_writer *w, int32_t id) {
    if (w->unknown) w->p[w->n++] = t->unknown;
    w->unknown = false;
    w->p[w->n++] = id;
}

// Writes a character without an id: the tokens of its bytes, else the unknown token, else nothing.
// As in Hugging Face's merge_word, an unknown token that is pending comes after such bytes.
static void write_unknown(const tokenizer *t, symbol_writer *w, const unsigned char *s, size_t n) {
    bool fallback = true;
    for (size_t i = 0; i < n; i++)
        fallback &= t->fallback_id[s[i]] >= 0;
    if (fallback) {
        for (size_t i = 0; i < n; i++)
            w->p[w->n++] = t->fallback_id[s[i]];
        return;
    }
    if (t->unknown < 0) return;
    if (w->unknown && !t->fuse_unknown) w->p[w->n++] = t->unknown;
    w->unknown = true;
}

// Writes the first symbols of a word: bytes, or characters with byte fallback.
static int64_t first_symbols(merger *self, const unsigned char *word, size_t n_bytes) {
    const tokenizer *tok = self->t;
    MEM_GROW(self->symbols, (int64_t)n_bytes * 3, self->cap_symbols); // a space may be three bytes
    symbol_writer symbols = {.p = self->symbols};
    const unsigned char *end = word + n_bytes;
    if (tok->byte_level && tok->all_bytes) {
        for (; word < end; word++)
            symbols.p[symbols.n++] = tok->byte_id[*word];
        return symbols.n;
    }
    for (const unsigned char *next; word < end; word = next) {
        unsigned char stand_in[4];
        const unsigned char *written = word; // the character as the vocabulary writes it
        int32_t id;
        next = word + 1;
        size_t n_written;
        if (tok->byte_level) {
            id = tok->byte_id[*word];
            n_written = (size_t)utf8_put(byte_char(*word), stand_in);
            written = stand_in;
        } else {
            next = word;
            utf8_next(&next);
            n_written = (size_t)(next - word);
            id = *word < 0x80 ? tok->ascii_id[*word] : tokenizer_word(tok, word, n_written);
            if (*word == ' ' && tok->space_mark) {
                written = (const unsigned char *)SPACE_MARK;
                n_written = sizeof SPACE_MARK - 1;
            }
        }
        if (id >= 0)
            write_known(tok, &symbols, id);
        else
            write_unknown(tok, &symbols, written, n_written);
    }
    if (symbols.unknown) symbols.p[symbols.n++] = tok->unknown;
    return symbols.n;
}

// Merges a short word: an array of symbols, and one of the merge of each with the next.
static int64_t merge_short(const tokenizer *t, const unsigned char *s, int32_t *symbol, int64_t n) {
    merge_to with_next[SHORT_WORD];
    for (int64_t i = 0; i + 1 < n; i++)
        with_next[i] = s ? t->byte_merges[256 * s[i] + s[i + 1]]
                         : tokenizer_merge_of(t, symbol[i], symbol[i + 1]);
    while (n > 1) {
        int64_t best = 0;
        for (int64_t i = 1; i + 1 < n; i++)
            if (with_next[i].rank < with_next[best].rank) best = i;
        if (with_next[best].rank == INT32_MAX) break;
        symbol[best] = with_next[best].merged;
        n--;
        for (int64_t i = best + 1; i < n; i++) {
            symbol[i] = symbol[i + 1];
            with_next[i] = with_next[i + 1];
        }
        if (best > 0) with_next[best - 1] = tokenizer_merge_of(t, symbol[best - 1], symbol[best]);
        if (best + 1 < n) with_next[best] = tokenizer_merge_of(t, symbol[best], symbol[best + 1]);
    }
    return n;
}

// --- a long word: a heap ordered by (rank, position)
static inline bool before(const candidate *x, const candidate *y) {
    return x->rank != y->rank ? x->rank < y->rank : x->at < y->at;
}

HEAP_DEFINE(candidates, candidate, before)

static void consider(merger *m, int32_t at) {
    if (at < 0 || m->pieces[at].next < 0) return;
    int32_t a = m->pieces[at].id, b = m->pieces[m->pieces[at].next].id;
    const merge_to to = tokenizer_merge_of(m->t, a, b);
    if (to.rank == INT32_MAX) return;
    MEM_GROW(m->heap, m->n_heap, m->cap_heap);
    candidates_push(m->heap, m->n_heap++, (candidate){to.rank, at, a, b});
}

static void merge_long(merger *self, int32_t n_symbols, id_list *out) {
    MEM_GROW(self->pieces, n_symbols, self->cap_pieces);
    for (int32_t i = 0; i < n_symbols; i++)
        self->pieces[i] = (piece){self->symbols[i], i - 1, i + 1 < n_symbols ? i + 1 : -1};
    self->n_heap = 0;
    for (int32_t i = 0; i + 1 < n_symbols; i++)
        consider(self, i);
    while (self->n_heap) {
        const candidate c = candidates_pop(self->heap, self->n_heap--);
        piece *p = &self->pieces[c.at];
        if (p->id != c.left || p->next < 0 || self->pieces[p->next].id != c.right) continue;
        piece *q = &self->pieces[p->next];
        p->id = tokenizer_merge_of(self->t, c.left, c.right).merged;
        q->id = -1;
        p->next = q->next;
        if (q->next >= 0) self->pieces[q->next].prev = c.at;
        consider(self, p->prev);
        consider(self, c.at);
    }
    for (int32_t i = 0; i >= 0; i = self->pieces[i].next)
        id_list_add(out, self->pieces[i].id);
}

void merger_run(merger *m, const unsigned char *s, size_t n, id_list *out) {
    const tokenizer *t = m->t;
    if (t->ignore_merges) {
        const int32_t id = tokenizer_word(t, s, n);
        if (id >= 0) {
            id_list_add(out, id);
            return;
        }
    }
    int64_t k = first_symbols(m, s, n);
    DRV_ASSERT(k <= INT32_MAX, "a word of %zu bytes", n);
    if (k > SHORT_WORD) {
        merge_long(m, (int32_t)k, out);
        return;
    }
    k = merge_short(t, t->byte_level && t->all_bytes ? s : NULL, m->symbols, k);
    for (int64_t i = 0; i < k; i++)
        id_list_add(out, m->symbols[i]);
}
