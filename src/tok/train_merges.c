// The merging half of training: the most frequent pair of neighbours becomes a symbol.
#include "tok/train_merges.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/heap.h"
#include "base/log.h"
#include "tok/tokenizer_internal.h"

typedef struct word { // symbols at symbols[first .. first + n)
    int64_t first, count;
    int32_t n;
} word;

typedef struct pair_info {
    uint64_t pair; // left << 32 | right
    int64_t count;
    int32_t *words; // that may contain it
    int32_t n_words, cap_words;
    int64_t touched; // number of the last merge that made it more frequent
} pair_info;

typedef struct queued {
    int64_t count;
    uint64_t pair;
} queued;

typedef struct merging {
    word *words;
    int64_t n_words;
    int32_t *symbols;
    pair_info *pairs;
    int64_t n_pairs, cap_pairs;
    uint32_t *slots; // pair -> index + 1, open addressing
    uint64_t n_slots;
    queued *heap;
    int64_t n_heap, cap_heap;
    int32_t *touched; // pairs that this merge made more frequent
    int64_t n_touched, cap_touched, now;
    int32_t *names; // bytes of a symbol -> index + 1, open addressing
    uint64_t n_names;
} merging;

// --- pairs
static void grow_slots(merging *m) {
    free(m->slots);
    m->n_slots = m->n_slots ? 2 * m->n_slots : 1 << 16;
    m->slots = mem_zeroed(sizeof *m->slots * (size_t)m->n_slots);
    for (int64_t i = 0; i < m->n_pairs; i++) {
        uint64_t h = pair_hash(m->pairs[i].pair);
        while (m->slots[h & (m->n_slots - 1)])
            h++;
        m->slots[h & (m->n_slots - 1)] = (uint32_t)i + 1;
    }
}

static int32_t pair_index(merging *m, int32_t a, int32_t b) {
    const uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    if (2 * (uint64_t)m->n_pairs >= m->n_slots) grow_slots(m);
    uint64_t h = pair_hash(pair);
    for (uint32_t i; (i = m->slots[h & (m->n_slots - 1)]); h++)
        if (m->pairs[i - 1].pair == pair) return (int32_t)i - 1;
    MEM_GROW(m->pairs, m->n_pairs, m->cap_pairs);
    m->pairs[m->n_pairs] = (pair_info){.pair = pair, .touched = -1};
    m->slots[h & (m->n_slots - 1)] = (uint32_t)m->n_pairs + 1;
    return (int32_t)m->n_pairs++;
}

static inline bool better(const queued *x, const queued *y) {
    return x->count != y->count ? x->count > y->count : x->pair < y->pair;
}

HEAP_DEFINE(queue, queued, better)

static void push(merging *m, queued q) {
    MEM_GROW(m->heap, m->n_heap, m->cap_heap);
    queue_push(m->heap, m->n_heap++, q);
}

// Adds to a pair's count; records the word if it gains the pair.
static void change(merging *m, int32_t a, int32_t b, int64_t by, int32_t w) {
    const int32_t index = pair_index(m, a, b);
    pair_info *p = &m->pairs[index];
    p->count += by;
    if (by < 0) return;
    if (!p->n_words || p->words[p->n_words - 1] != w) {
        MEM_GROW(p->words, p->n_words, p->cap_words);
        p->words[p->n_words++] = w;
    }
    if (p->touched == m->now) return;
    p->touched = m->now;
    MEM_GROW(m->touched, m->n_touched, m->cap_touched);
    m->touched[m->n_touched++] = index;
}

// Queues the pairs whose counts have grown. A count that has shrunk is noticed when its pair is
// taken from the queue.
static void queue_touched(merging *m) {
    for (int64_t i = 0; i < m->n_touched; i++) {
        const pair_info *p = &m->pairs[m->touched[i]];
        if (p->count > 0) push(m, (queued){p->count, p->pair});
    }
    m->n_touched = 0;
    m->now++;
}

// --- words
static void begin(merging *m, word_counts *c, const int32_t byte_symbol[256]) {
    m->words = mem_alloc(sizeof *m->words * (size_t)(c->n + 1));
    m->symbols = mem_alloc(sizeof *m->symbols * (c->text.n + 1));
    m->n_words = c->n;
    int64_t at = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const counted_word *w = &c->words[i];
        m->words[i] = (word){at, w->count, (int32_t)w->n};
        for (uint32_t k = 0; k < w->n; k++)
            m->symbols[at++] = byte_symbol[(unsigned char)c->text.p[w->at + k]];
    }
    word_counts_free(c);
    for (int64_t i = 0; i < m->n_words; i++) {
        const int32_t *s = m->symbols + m->words[i].first;
        for (int32_t k = 0; k + 1 < m->words[i].n; k++)
            change(m, s[k], s[k + 1], m->words[i].count, (int32_t)i);
    }
    queue_touched(m);
}

static void merge_in_word(merging *run, int32_t index, int32_t left, int32_t right,
        int32_t merged) {
    word *x = &run->words[index];
    int32_t *s = run->symbols + x->first, n = 0;
    for (int32_t i = 0; i < x->n; i++) {
        if (i + 1 == x->n || s[i] != left || s[i + 1] != right) {
            s[n++] = s[i];
            continue;
        }
        if (n > 0) {
            change(run, s[n - 1], left, -x->count, index);
            change(run, s[n - 1], merged, x->count, index);
        }
        if (i + 2 < x->n) {
            change(run, right, s[i + 2], -x->count, index);
            // A following "a b" will be merged too; its left neighbour is then `merged`.
            change(run, merged, s[i + 2], x->count, index);
        }
        s[n++] = merged;
        i++;
    }
    x->n = n;
}

// --- symbols
static int32_t *name_slot(merging *m, const bpe_merges *out, const char *p, size_t n) {
    for (uint64_t h = XXH3_64bits(p, n);; h++) {
        int32_t *slot = &m->names[h & (m->n_names - 1)];
        const bpe_symbol *s = &out->symbols[*slot - 1];
        if (!*slot || (s->n == n && memcmp(out->text.p + s->at, p, n) == 0)) return slot;
    }
}

// Returns the symbol of two joined: the one that has their text already, or a new one.
static int32_t join(merging *m, bpe_merges *out, int32_t a, int32_t b) {
    const bpe_symbol x = out->symbols[a], y = out->symbols[b];
    const size_t at = out->text.n;
    str_reserve(&out->text, x.n + y.n); // the bytes appended come from the same text
    str_add(&out->text, out->text.p + x.at, x.n);
    str_add(&out->text, out->text.p + y.at, y.n);
    int32_t *slot = name_slot(m, out, out->text.p + at, x.n + y.n);
    if (*slot) {
        out->text.n = at;
        return *slot - 1;
    }
    out->symbols[out->n_symbols++] = (bpe_symbol){at, x.n + y.n};
    *slot = (int32_t)out->n_symbols;
    return *slot - 1;
}

static void begin_names(merging *m, const bpe_merges *out, int64_t n_symbols) {
    m->n_names = 1024;
    while (m->n_names < 2 * (uint64_t)n_symbols)
        m->n_names *= 2;
    m->names = mem_zeroed(sizeof *m->names * (size_t)m->n_names);
    for (int64_t i = 0; i < out->n_symbols; i++) {
        const bpe_symbol *s = &out->symbols[i];
        *name_slot(m, out, out->text.p + s->at, s->n) = (int32_t)i + 1;
    }
}

static void end(merging *m) {
    for (int64_t i = 0; i < m->n_pairs; i++)
        free(m->pairs[i].words);
    free(m->words);
    free(m->symbols);
    free(m->pairs);
    free(m->slots);
    free(m->heap);
    free(m->touched);
    free(m->names);
}

// --- merging
// Takes the most frequent pair from the queue; -1: none is left that occurs min_frequency times.
static int32_t next_pair(merging *m, int64_t min_frequency) {
    while (m->n_heap) {
        const queued q = queue_pop(m->heap, m->n_heap--);
        const int32_t index = pair_index(m, (int32_t)(q.pair >> 32), (int32_t)q.pair);
        const int64_t count = m->pairs[index].count;
        if (count == q.count) return count < min_frequency ? -1 : index;
        if (count > 0 && count < q.count) push(m, (queued){count, q.pair}); // it was stale
    }
    return -1;
}

// Replaces the pair by one symbol wherever it occurs.
static void merge_pair(merging *m, bpe_merges *out, int32_t index) {
    pair_info *p = &m->pairs[index];
    const int32_t left = (int32_t)(p->pair >> 32), right = (int32_t)p->pair;
    const int32_t merged = join(m, out, left, right), n = p->n_words;
    int32_t *words = p->words;
    p->words = NULL; // merging adds pairs, so `p` may move
    p->n_words = p->cap_words = 0;
    for (int32_t i = 0; i < n; i++)
        merge_in_word(m, words[i], left, right, merged);
    free(words);
    m->pairs[index].count = 0;
    queue_touched(m);
    MEM_GROW(out->merges, out->n_merges, out->cap_merges);
    out->merges[out->n_merges][0] = left;
    out->merges[out->n_merges++][1] = right;
}

void bpe_merge(word_counts *words, const int32_t byte_symbol[256], int64_t n_symbols,
        int64_t min_frequency, bpe_merges *out) {
    merging m = {0};
    begin_names(&m, out, n_symbols);
    begin(&m, words, byte_symbol);
    for (int32_t pair; out->n_symbols < n_symbols && (pair = next_pair(&m, min_frequency)) >= 0;) {
        merge_pair(&m, out, pair);
        progress("merges: %lld of %lld tokens", (long long)out->n_symbols, (long long)n_symbols);
    }
    progress_end();
    end(&m);
}

void bpe_merges_free(bpe_merges *m) {
    free(m->symbols);
    free(m->merges);
    str_free(&m->text);
    *m = (bpe_merges){0};
}
