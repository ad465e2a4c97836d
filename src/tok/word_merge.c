#include "tok/word_merge.h"

#include <stdlib.h>
#include <string.h>

#include "tok/unicode.h"

enum { SHORT_WORD = 24 }; // symbols up to which the lowest rank is searched one by one

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

static inline const pair_rank *find_merge(const tokenizer *t, int32_t a, int32_t b) {
    const uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    for (uint64_t h = pair_hash(pair);; h++) {
        const pair_rank *m = &t->merges[h & t->merge_mask];
        if (m->pair == pair) return m;
        if (m->pair == UINT64_MAX) return NULL;
    }
}

// The first symbols of a word: bytes, or characters with byte fallback.
static int64_t first_symbols(merger *m, const unsigned char *s, size_t n) {
    const tokenizer *t = m->t;
    MEM_GROW(m->symbols, (int64_t)n * 3, m->cap_symbols); // a space may be three bytes
    int32_t *out = m->symbols;
    int64_t k = 0;
    if (t->byte_level) {
        for (size_t i = 0; i < n; i++)
            if (t->byte_id[s[i]] >= 0) out[k++] = t->byte_id[s[i]];
        return k;
    }
    bool unknown = false; // neighbours that are unknown are one with fuse_unk
    for (const unsigned char *end = s + n; s < end;) {
        const unsigned char *next = s;
        utf8_next(&next);
        const int32_t id = *s < 0x80 ? t->ascii_id[*s] : tokenizer_word(t, s, (size_t)(next - s));
        if (id >= 0) {
            out[k++] = id;
            unknown = false;
            s = next;
            continue;
        }
        const bool space = *s == ' ' && t->space_mark;
        const unsigned char *raw = space ? (const unsigned char *)SPACE_MARK : s;
        const size_t n_raw = space ? sizeof SPACE_MARK - 1 : (size_t)(next - s);
        bool fallback = true;
        for (size_t i = 0; i < n_raw; i++)
            fallback &= t->byte_id[raw[i]] >= 0;
        for (size_t i = 0; i < n_raw && fallback; i++)
            out[k++] = t->byte_id[raw[i]];
        if (!fallback && t->unknown >= 0 && !(unknown && t->fuse_unknown)) out[k++] = t->unknown;
        unknown = !fallback;
        s = next;
    }
    return k;
}

static inline merge_to merge_of(const tokenizer *t, int32_t a, int32_t b) {
    const pair_rank *p = find_merge(t, a, b);
    return p ? (merge_to){p->rank, p->merged} : (merge_to){INT32_MAX, -1};
}

// A short word: its symbols side by side, beside each its merge with the next.
static int64_t merge_short(const tokenizer *t, const unsigned char *s, int32_t *symbol, int64_t n) {
    merge_to with_next[SHORT_WORD];
    for (int64_t i = 0; i + 1 < n; i++)
        with_next[i] =
                s ? t->byte_merges[256 * s[i] + s[i + 1]] : merge_of(t, symbol[i], symbol[i + 1]);
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
        if (best > 0) with_next[best - 1] = merge_of(t, symbol[best - 1], symbol[best]);
        if (best + 1 < n) with_next[best] = merge_of(t, symbol[best], symbol[best + 1]);
    }
    return n;
}

// --- a long word: a heap ordered by (rank, position)
static bool before(const candidate *x, const candidate *y) {
    return x->rank != y->rank ? x->rank < y->rank : x->at < y->at;
}

static void heap_push(merger *m, candidate c) {
    MEM_GROW(m->heap, m->n_heap, m->cap_heap);
    int64_t i = m->n_heap++;
    for (; i > 0 && before(&c, &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = c;
}

static candidate heap_pop(merger *m) {
    candidate top = m->heap[0], c = m->heap[--m->n_heap];
    int64_t i = 0;
    for (int64_t k; (k = 2 * i + 1) < m->n_heap; i = k) {
        if (k + 1 < m->n_heap && before(&m->heap[k + 1], &m->heap[k])) k++;
        if (!before(&m->heap[k], &c)) break;
        m->heap[i] = m->heap[k];
    }
    m->heap[i] = c;
    return top;
}

static void consider(merger *m, int32_t at) {
    if (at < 0 || m->pieces[at].next < 0) return;
    int32_t a = m->pieces[at].id, b = m->pieces[m->pieces[at].next].id;
    const pair_rank *p = find_merge(m->t, a, b);
    if (p) heap_push(m, (candidate){p->rank, at, a, b});
}

static void merge_long(merger *m, int32_t n, id_list *out) {
    MEM_GROW(m->pieces, n, m->cap_pieces);
    for (int32_t i = 0; i < n; i++)
        m->pieces[i] = (piece){m->symbols[i], i - 1, i + 1 < n ? i + 1 : -1};
    m->n_heap = 0;
    for (int32_t i = 0; i + 1 < n; i++)
        consider(m, i);
    while (m->n_heap) {
        candidate c = heap_pop(m);
        piece *p = &m->pieces[c.at];
        if (p->id != c.left || p->next < 0 || m->pieces[p->next].id != c.right) continue;
        piece *q = &m->pieces[p->next];
        p->id = find_merge(m->t, c.left, c.right)->merged;
        q->id = -1;
        p->next = q->next;
        if (q->next >= 0) m->pieces[q->next].prev = c.at;
        consider(m, p->prev);
        consider(m, c.at);
    }
    for (int32_t i = 0; i >= 0; i = m->pieces[i].next)
        id_list_add(out, m->pieces[i].id);
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
    // A byte without an id is left out: then symbols and bytes do not stand side by side.
    k = merge_short(t, t->byte_level && (size_t)k == n ? s : NULL, m->symbols, k);
    for (int64_t i = 0; i < k; i++)
        id_list_add(out, m->symbols[i]);
}
