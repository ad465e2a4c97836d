// Returns the ids of words: from the cache if they were seen before, otherwise by merging.
#include "tok/word_cache.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// Long words, and those that do not fit the shared table, by hash; their ids and bytes lie in a
// pool. When the pool is full, the table is cleared. Words over LONG_BYTES are merged each time.
enum { MIN_LONGS = 1 << 10, LONG_BYTES = 1024, POOL_BYTES = 16 << 20 };
typedef struct long_word {
    uint64_t hash;
    size_t at;         // in the pool: n_ids ids, then n bytes
    uint32_t n, n_ids; // n 0: empty
} long_word;

struct word_cache {
    merger *m;
    word_table *table;
    long_word *longs; // open addressing
    uint64_t n_longs, n_long_used;
    str pool;
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
    str_free(&c->pool);
    free(c);
}

// --- long words
static const char *long_bytes(const word_cache *c, const long_word *w) {
    return c->pool.p + w->at + sizeof(int32_t) * w->n_ids;
}

static long_word *long_slot(word_cache *c, uint64_t hash, const unsigned char *s, size_t n) {
    for (uint64_t i = hash;; i++) {
        long_word *w = &c->longs[i & (c->n_longs - 1)];
        if (!w->n || (w->hash == hash && w->n == n && memcmp(long_bytes(c, w), s, n) == 0))
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
    static const char gap[sizeof *ids];
    if (c->pool.n > POOL_BYTES) {
        memset(c->longs, 0, c->n_longs * sizeof *c->longs);
        c->n_long_used = 0;
        str_clear(&c->pool);
    }
    if (2 * c->n_long_used >= c->n_longs) grow_longs(c);
    str_add(&c->pool, gap, (sizeof *ids - c->pool.n % sizeof *ids) % sizeof *ids);
    *long_slot(c, hash, s, n) = (long_word){hash, c->pool.n, (uint32_t)n, (uint32_t)n_ids};
    c->n_long_used++;
    str_add(&c->pool, ids, sizeof *ids * (size_t)n_ids);
    str_add(&c->pool, s, n);
}

static uint64_t long_hash(const unsigned char *s, size_t n) {
    return n <= LONG_BYTES ? XXH3_64bits(s, n) : 0;
}

// Appends the ids of a word that the table lacks; caches them there or, unless hash is 0, by hash.
static void encode_long(word_cache *c, const unsigned char *s, size_t n, uint64_t hash,
        const word_key *key, word_slot *first, id_list *out) {
    const long_word *known = hash ? long_slot(c, hash, s, n) : NULL;
    if (known && known->n) {
        id_list_append(out, (const int32_t *)(const void *)(c->pool.p + known->at), known->n_ids);
        return;
    }
    const int64_t from = out->n;
    merger_run(c->m, s, n, out);
    const int32_t *ids = out->p + from;
    const int64_t n_ids = out->n - from;
    const bool fits = n <= WORD_KEY_BYTES && n_ids > 0 && n_ids <= WORD_MANY_IDS;
    if (fits && word_table_add(c->table, first, key, ids, (int)n_ids)) return;
    if (known) add_long(c, hash, s, n, ids, n_ids);
}

// --- short words
// Masks that select the n bytes of a word among the 16 at its address, and put n where the key has
// it. A word of 16 or more bytes has no key: it gets one that no word has.
#define SOME_BYTES(n) ((1ull << (n) % 8 * 8) - 1)
#define KEY_MASK(n)                                                                                \
    { {(n) < 8 ? SOME_BYTES(n) : UINT64_MAX, (n) > 8 ? SOME_BYTES(n) : 0}, (uint64_t)(n) << 56, 0 }
static const struct key_mask {
    uint64_t part[2], length, unused;
} key_masks[WORD_KEY_BYTES + 2] = {KEY_MASK(0), KEY_MASK(1), KEY_MASK(2), KEY_MASK(3), KEY_MASK(4),
        KEY_MASK(5), KEY_MASK(6), KEY_MASK(7), KEY_MASK(8), KEY_MASK(9), KEY_MASK(10), KEY_MASK(11),
        KEY_MASK(12), KEY_MASK(13), KEY_MASK(14), KEY_MASK(15), {{0, 0}, 16ull << 56, 0}};

// Makes the key of a word from the 16 bytes at its address.
static inline void make_key(const unsigned char *s, size_t n, word_key *key) {
    const struct key_mask *mask = &key_masks[n <= WORD_KEY_BYTES ? n : WORD_KEY_BYTES + 1];
    uint64_t part[2];
    memcpy(part, s, sizeof part);
    key->part[0] = part[0] & mask->part[0];
    key->part[1] = (part[1] & mask->part[1]) | mask->length;
}

// The keys of a batch of words, ready to be looked up.
typedef struct prepared {
    word_key key[SPLIT_BATCH];
    word_slot *slot[SPLIT_BATCH];    // at which the search begins
    uint64_t long_hash[SPLIT_BATCH]; // of the words that are too long for a key, in their order
} prepared;

// Computes the keys and slots of the words, and prefetches the slots.
static void prepare(const word_cache *cache, const unsigned char *const *bounds, int n_words,
        const unsigned char *end, prepared *batch) {
    word_slot *const first = cache->table->slots;
    uint64_t *hash = batch->long_hash;
    int n_safe = n_words;
    while (n_safe > 0 && end - bounds[n_safe - 1] <= WORD_KEY_BYTES)
        n_safe--;
    for (int i = 0; i < n_safe; i++) {
        const size_t bytes = (size_t)(bounds[i + 1] - bounds[i]);
        make_key(bounds[i], bytes, &batch->key[i]);
        batch->slot[i] = first + word_place(&batch->key[i]);
        __builtin_prefetch(batch->slot[i]);
        if (__builtin_expect(bytes <= WORD_KEY_BYTES, 1)) continue;
        *hash = long_hash(bounds[i], bytes);
        __builtin_prefetch(&cache->longs[*hash++ & (cache->n_longs - 1)]);
    }
    for (int i = n_safe; i < n_words; i++) { // fewer than 16 bytes before the end of the text
        unsigned char bytes[WORD_KEY_BYTES + 1] = {0};
        const size_t n_bytes = (size_t)(bounds[i + 1] - bounds[i]);
        memcpy(bytes, bounds[i], n_bytes);
        make_key(bytes, n_bytes, &batch->key[i]);
        batch->slot[i] = first + word_place(&batch->key[i]);
    }
}

void word_cache_encode(word_cache *cache, const unsigned char *const *bounds, int n_words,
        const unsigned char *end, id_list *out) {
    prepared batch;
    prepare(cache, bounds, n_words, end, &batch);
    id_list_reserve(out, (int64_t)WORD_MANY_IDS * n_words);
    int32_t *to = out->p + out->n;
    const uint64_t *long_hashes = batch.long_hash;
    for (int i = 0; i < n_words; i++) {
        if (__builtin_expect(word_slot_has(batch.slot[i], &batch.key[i]), 1)) {
            to = word_slot_put(batch.slot[i], to);
            continue;
        }
        const size_t bytes = (size_t)(bounds[i + 1] - bounds[i]);
        const bool is_short = bytes <= WORD_KEY_BYTES;
        const int found =
                is_short ? word_table_find(cache->table, batch.slot[i], &batch.key[i], to) : -1;
        if (found > 0) {
            to += found;
            continue;
        }
        const uint64_t hash = !is_short ? *long_hashes++ : found ? long_hash(bounds[i], bytes) : 0;
        out->n = to - out->p;
        encode_long(cache, bounds[i], bytes, hash, &batch.key[i], batch.slot[i], out);
        id_list_reserve(out, (int64_t)WORD_MANY_IDS * (n_words - i));
        to = out->p + out->n;
    }
    out->n = to - out->p;
}
