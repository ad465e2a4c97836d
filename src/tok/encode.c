// Text -> ids. Added tokens are cut out first; the rest is normalised, split into words, and each
// word is merged pair by pair in the order of the merge list.
#include <stdlib.h>
#include <string.h>

#include "tok/tokenizer.h"
#include "tok/unicode.h"

enum { CACHE_SLOTS = 1 << 16, CACHE_WORD = 24, CACHE_IDS = 6 };

typedef struct cache_slot { // direct-mapped
    unsigned char n, n_ids; // n 0: empty
    unsigned char word[CACHE_WORD];
    int32_t ids[CACHE_IDS];
} cache_slot;

typedef struct piece { // a symbol of the word being merged, in a doubly linked list
    int32_t id, prev, next;
} piece;

typedef struct candidate {         // a possible merge of piece `at` with its right neighbour
    int32_t rank, at, left, right; // ids when it was found: stale if they changed
} candidate;

struct encoder {
    const tokenizer *t;
    cache_slot *cache;
    piece *pieces;
    candidate *heap;
    int64_t cap_pieces, n_heap, cap_heap;
    id_list *out;
};

void id_list_add(id_list *l, int32_t id) {
    MEM_GROW(l->p, l->n, l->cap);
    l->p[l->n++] = id;
}

void id_list_free(id_list *l) {
    free(l->p);
    *l = (id_list){0};
}

encoder *encoder_new(const tokenizer *t) {
    encoder *e = mem_alloc(sizeof *e);
    *e = (encoder){.t = t};
    e->cache = calloc(CACHE_SLOTS, sizeof *e->cache);
    DRV_ASSERT(e->cache, "out of memory");
    return e;
}

void encoder_free(encoder *e) {
    if (!e) return;
    free(e->cache);
    free(e->pieces);
    free(e->heap);
    free(e);
}

static const pair_rank *find_merge(const tokenizer *t, int32_t a, int32_t b) {
    uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b, h = pair * 0x9E3779B97F4A7C15ull;
    for (h ^= h >> 32;; h++) {
        const pair_rank *m = &t->merges[h & t->merge_mask];
        if (m->pair == pair) return m;
        if (m->pair == UINT64_MAX) return NULL;
    }
}

// --- a heap ordered by (rank, position), as Hugging Face merges
// ---------------------------------------
static bool before(const candidate *x, const candidate *y) {
    return x->rank != y->rank ? x->rank < y->rank : x->at < y->at;
}

static void heap_push(encoder *e, candidate c) {
    MEM_GROW(e->heap, e->n_heap, e->cap_heap);
    int64_t i = e->n_heap++;
    for (; i > 0 && before(&c, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = c;
}

static candidate heap_pop(encoder *e) {
    candidate top = e->heap[0], c = e->heap[--e->n_heap];
    int64_t i = 0;
    for (int64_t k; (k = 2 * i + 1) < e->n_heap; i = k) {
        if (k + 1 < e->n_heap && before(&e->heap[k + 1], &e->heap[k])) k++;
        if (!before(&e->heap[k], &c)) break;
        e->heap[i] = e->heap[k];
    }
    e->heap[i] = c;
    return top;
}

static void consider(encoder *e, int32_t at) {
    if (at < 0 || e->pieces[at].next < 0) return;
    int32_t a = e->pieces[at].id, b = e->pieces[e->pieces[at].next].id;
    const pair_rank *m = find_merge(e->t, a, b);
    if (m) heap_push(e, (candidate){m->rank, at, a, b});
}

static void merge_pieces(encoder *e, int32_t n) {
    e->n_heap = 0;
    for (int32_t i = 0; i + 1 < n; i++)
        consider(e, i);
    while (e->n_heap) {
        candidate c = heap_pop(e);
        piece *p = &e->pieces[c.at];
        if (p->id != c.left || p->next < 0 || e->pieces[p->next].id != c.right) continue;
        piece *q = &e->pieces[p->next];
        p->id = find_merge(e->t, c.left, c.right)->merged;
        q->id = -1;
        p->next = q->next;
        if (q->next >= 0) e->pieces[q->next].prev = c.at;
        consider(e, p->prev);
        consider(e, c.at);
    }
}

// The first symbols of a word: bytes, or characters with byte fallback.
static int32_t first_pieces(encoder *e, const unsigned char *s, size_t n) {
    const tokenizer *t = e->t;
    MEM_GROW(e->pieces, (int64_t)n, e->cap_pieces);
    int32_t k = 0;
    bool unknown = false; // fuse_unk: neighbours are one
    for (const unsigned char *end = s + n; s < end;) {
        const unsigned char *next = s + 1;
        int32_t id = -1;
        if (!t->byte_level) {
            utf8_next((next = s, &next));
            id = tokenizer_word(t, s, (size_t)(next - s));
        }
        if (id >= 0) {
            e->pieces[k++].id = id;
            unknown = false;
            s = next;
            continue;
        }
        bool fallback = true;
        for (const unsigned char *b = s; b < next; b++)
            fallback &= t->byte_id[*b] >= 0;
        for (const unsigned char *b = s; b < next && fallback; b++)
            e->pieces[k++].id = t->byte_id[*b];
        if (!fallback && t->unknown >= 0 && !unknown) e->pieces[k++].id = t->unknown;
        unknown = !fallback;
        s = next;
    }
    for (int32_t i = 0; i < k; i++) {
        e->pieces[i].prev = i - 1;
        e->pieces[i].next = i + 1 < k ? i + 1 : -1;
    }
    return k;
}

static void encode_word(encoder *e, const unsigned char *s, size_t n) {
    const tokenizer *t = e->t;
    if (t->ignore_merges) {
        int32_t id = tokenizer_word(t, s, n);
        if (id >= 0) {
            id_list_add(e->out, id);
            return;
        }
    }
    int32_t k = first_pieces(e, s, n);
    merge_pieces(e, k);
    for (int32_t i = k ? 0 : -1; i >= 0; i = e->pieces[i].next)
        id_list_add(e->out, e->pieces[i].id);
}

static void cached_word(void *ctx, const unsigned char *s, size_t n) {
    encoder *e = ctx;
    if (n > CACHE_WORD) {
        encode_word(e, s, n);
        return;
    }
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ s[i]) * 0x100000001B3ull;
    cache_slot *c = &e->cache[(h ^ h >> 32) % CACHE_SLOTS];
    if (c->n == n && memcmp(c->word, s, n) == 0) {
        for (int i = 0; i < c->n_ids; i++)
            id_list_add(e->out, c->ids[i]);
        return;
    }
    int64_t first = e->out->n;
    encode_word(e, s, n);
    if (e->out->n - first > CACHE_IDS) return;
    c->n = (unsigned char)n;
    c->n_ids = (unsigned char)(e->out->n - first);
    memcpy(c->word, s, n);
    memcpy(c->ids, e->out->p + first, sizeof *c->ids * c->n_ids);
}

typedef struct rule_level {
    encoder *e;
    int next;
} rule_level;

static void apply_rules(void *ctx, const unsigned char *s, size_t n) {
    const rule_level *l = ctx;
    const tokenizer *t = l->e->t;
    if (l->next >= t->n_rules) {
        cached_word(l->e, s, n);
        return;
    }
    rule_level deeper = {l->e, l->next + 1};
    split_text(&t->rule[l->next], s, n, apply_rules, &deeper);
}

static const added_token *added_at(
        const tokenizer *t, bool normalized, const unsigned char *s, size_t n) {
    const added_token *best = NULL;
    if (!(t->added_first[*s] & (normalized ? 2 : 1))) return NULL;
    for (int i = 0; i < t->n_added; i++) {
        const added_token *d = &t->added[i];
        if (d->normalized == normalized && (size_t)d->n <= n &&
                memcmp(d->text, s, (size_t)d->n) == 0 && (!best || d->n > best->n))
            best = d;
    }
    return best;
}

// Cuts the added tokens out, leftmost and longest first; `part` gets what lies between them.
static void cut_added(encoder *e, bool normalized, const unsigned char *s, size_t n,
        void (*part)(encoder *e, const unsigned char *s, size_t n)) {
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        const added_token *d = added_at(e->t, normalized, s + i, n - i);
        if (!d) {
            i++;
            continue;
        }
        if (i > from) part(e, s + from, i - from);
        id_list_add(e->out, d->id);
        i += (size_t)d->n;
        from = i;
    }
    if (n > from) part(e, s + from, n - from);
}

static void encode_words(encoder *e, const unsigned char *s, size_t n) {
    rule_level l = {e, 0};
    apply_rules(&l, s, n);
}

static void encode_part(encoder *e, const unsigned char *s, size_t n) {
    str composed = {0};
    tokenizer_normalize(e->t, s, n, &composed);
    cut_added(e, true, (const unsigned char *)composed.p, composed.n, encode_words);
    str_free(&composed);
}

void encoder_run(encoder *e, const void *text, size_t n, bool specials, id_list *out) {
    const tokenizer *t = e->t;
    e->out = out;
    for (int i = 0; specials && i < t->n_before; i++)
        id_list_add(out, t->before[i]);
    const bool plain = t->byte_level && !t->nfc; // nothing to normalise: no copy
    cut_added(e, false, text, n, plain ? encode_words : encode_part);
    for (int i = 0; specials && i < t->n_after; i++)
        id_list_add(out, t->after[i]);
}
