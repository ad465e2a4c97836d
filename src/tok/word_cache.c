// Ids of words that were seen before, or by merging.
#include "tok/word_cache.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// Long words, and those of many ids, by their hash; their bytes and ids lie in pools. When the
// pools are full all is forgotten.
enum { MIN_LONGS = 1 << 10, LONG_BYTES = 1024, POOL_BYTES = 16 << 20 };
typedef struct long_word {
    uint64_t hash;
    size_t text;
    int64_t first_id;
    uint32_t n, n_ids; // n 0: empty
} long_word;

struct word_cache {
    merger *m;
    word_table *table;
    long_word *longs;
    uint64_t n_longs, n_long_used;
    str text;
    id_list ids;
};

static long_word *new_longs(uint64_t n) {
    long_word *p = mem_zeroed(sizeof *p * (size_t)n);
    return p;
}

word_cache *word_cache_new(const tokenizer *t) {
    word_cache *c = mem_alloc_lines(sizeof *c);
    *c = (word_cache){.m = merger_new(t), .table = t->words, .n_longs = MIN_LONGS};
    c->longs = new_longs(c->n_longs);
    return c;
}

void word_cache_free(word_cache *c) {
    if (!c) return;
    merger_free(c->m);
    free(c->longs);
    str_free(&c->text);
    id_list_free(&c->ids);
    free(c);
}

static long_word *long_slot(word_cache *c, uint64_t hash, const unsigned char *s, size_t n) {
    for (uint64_t i = hash;; i++) {
        long_word *w = &c->longs[i & (c->n_longs - 1)];
        if (!w->n || (w->hash == hash && w->n == n && memcmp(c->text.p + w->text, s, n) == 0))
            return w;
    }
}

static void grow_longs(word_cache *c) {
    long_word *old = c->longs;
    const uint64_t n_old = c->n_longs;
    c->n_longs *= 2;
    c->longs = new_longs(c->n_longs);
    for (uint64_t i = 0; i < n_old; i++) {
        uint64_t at = old[i].hash;
        while (old[i].n && c->longs[at & (c->n_longs - 1)].n)
            at++;
        if (old[i].n) c->longs[at & (c->n_longs - 1)] = old[i];
    }
    free(old);
}

static void add_long(word_cache *c, uint64_t hash, const unsigned char *s, size_t n,
        const int32_t *ids, int64_t n_ids) {
    if (c->text.n + sizeof *ids * (size_t)c->ids.n > POOL_BYTES) {
        memset(c->longs, 0, c->n_longs * sizeof *c->longs);
        c->n_long_used = 0;
        str_clear(&c->text);
        c->ids.n = 0;
    }
    if (2 * c->n_long_used >= c->n_longs) grow_longs(c);
    *long_slot(c, hash, s, n) =
            (long_word){hash, c->text.n, c->ids.n, (uint32_t)n, (uint32_t)n_ids};
    c->n_long_used++;
    str_add(&c->text, s, n);
    id_list_append(&c->ids, ids, n_ids);
}

// A word that the table does not have. key NULL: too long for it.
static void encode_rare(word_cache *c, const text_word *w, const word_key *key, uint64_t hash,
        id_list *out) {
    const uint64_t long_hash = w->n <= LONG_BYTES ? XXH3_64bits(w->s, w->n) : 0;
    const long_word *known = w->n <= LONG_BYTES ? long_slot(c, long_hash, w->s, w->n) : NULL;
    if (known && known->n) {
        id_list_append(out, c->ids.p + known->first_id, known->n_ids);
        return;
    }
    const int64_t first = out->n;
    merger_run(c->m, w->s, w->n, out);
    const int64_t n_ids = out->n - first;
    if (key && n_ids > 0 && n_ids <= WORD_IDS) {
        word_ids ids = {{0}};
        memcpy(ids.id, out->p + first, sizeof *out->p * (size_t)n_ids);
        ids.id[0] |= (uint32_t)n_ids << 24;
        word_table_add(c->table, hash, key, &ids);
    } else if (known) {
        add_long(c, long_hash, w->s, w->n, out->p + first, n_ids);
    }
}

static inline void make_key(const text_word *w, const unsigned char *end, word_key *key) {
    uint64_t part[2] = {0, 0};
    if (end - w->s >= 16) { // may be read at once
        memcpy(part, w->s, 16);
        const unsigned bits = 8 * (unsigned)w->n;
        part[0] &= w->n < 8 ? (1ull << bits) - 1 : UINT64_MAX;
        part[1] &= w->n <= 8 ? 0 : (1ull << (bits - 64)) - 1;
    } else {
        memcpy(part, w->s, w->n);
    }
    key->part[0] = part[0];
    key->part[1] = part[1] | (uint64_t)w->n << 56;
}

void word_cache_encode(word_cache *c, const text_word *w, int n, const unsigned char *end,
        id_list *out) {
    word_key keys[SPLIT_BATCH];
    uint64_t hashes[SPLIT_BATCH];
    for (int i = 0; i < n; i++) {
        if (w[i].n > WORD_KEY_BYTES) continue;
        make_key(&w[i], end, &keys[i]);
        hashes[i] = word_hash(&keys[i]);
        word_table_prefetch(c->table, hashes[i]);
    }
    id_list_reserve(out, (int64_t)WORD_IDS * n);
    for (int i = 0; i < n; i++) {
        word_ids ids;
        const bool is_short = w[i].n <= WORD_KEY_BYTES;
        if (is_short && word_table_find(c->table, hashes[i], &keys[i], &ids)) {
            int32_t *to = out->p + out->n;
            memcpy(to, &ids, sizeof ids);
            to[0] = (int32_t)(ids.id[0] & 0xFFFFFF);
            out->n += ids.id[0] >> 24;
            continue;
        }
        encode_rare(c, &w[i], is_short ? &keys[i] : NULL, is_short ? hashes[i] : 0, out);
        id_list_reserve(out, (int64_t)WORD_IDS * (n - i));
    }
}
