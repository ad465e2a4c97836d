#include "tok/word_cache.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// A word of up to 15 bytes is its own key: the bytes, zeros, the length in the last one. Four ids
// lie beside it, so that a hit touches one cache line and is copied without a branch.
enum { KEY_BYTES = 15, SLOT_IDS = 4, WAYS = 4, LEAST_SLOTS = 1 << 12, MOST_SLOTS = 1 << 20 };

typedef struct slot {
    uint64_t key[2];        // key[1] 0: empty
    uint32_t ids[SLOT_IDS]; // the number of ids in the top 8 bits of the first
} slot;

// Longer words, and those of more ids: text and ids lie one after the other in a pool.
enum { LEAST_LONG = 1 << 10, LONG_BYTES = 1024, POOL_BYTES = 32 << 20 };
typedef struct long_word {
    uint64_t hash;
    int64_t at;        // of the text; the ids follow at the next multiple of 4
    uint32_t n, n_ids; // n 0: empty
} long_word;

struct word_cache {
    merger *m;
    slot *slots; // WAYS of one set lie in 128 aligned bytes
    uint64_t n_slots, n_used;
    long_word *longs;
    uint64_t n_longs, n_long_used;
    str pool;
};

static slot *new_slots(uint64_t n) {
    slot *p = pages_alloc(n * sizeof *p);
    DRV_ASSERT(p, "out of memory");
    return p;
}

static void clear_longs(word_cache *c, uint64_t n) {
    free(c->longs);
    c->longs = calloc(n, sizeof *c->longs);
    DRV_ASSERT(c->longs, "out of memory");
    c->n_longs = n;
    c->n_long_used = 0;
    str_clear(&c->pool);
}

word_cache *word_cache_new(const tokenizer *t) {
    word_cache *c = mem_alloc(sizeof *c);
    *c = (word_cache){.m = merger_new(t), .n_slots = LEAST_SLOTS};
    c->slots = new_slots(c->n_slots);
    clear_longs(c, LEAST_LONG);
    return c;
}

void word_cache_free(word_cache *c) {
    if (!c) return;
    merger_free(c->m);
    pages_free(c->slots, c->n_slots * sizeof *c->slots);
    free(c->longs);
    str_free(&c->pool);
    free(c);
}

static inline uint64_t key_hash(const uint64_t key[2]) {
    uint64_t h = (key[0] ^ (key[1] * 0x9E3779B97F4A7C15ull)) * 0xD6E8FEB86659FD93ull;
    h ^= h >> 32;
    return h * 0xD6E8FEB86659FD93ull;
}

static inline slot *set_of(const word_cache *c, uint64_t hash) {
    return c->slots + ((hash >> 32) & (c->n_slots / WAYS - 1)) * WAYS;
}

// Bytes from s on; at least 16 may be read unless the text ends before.
static inline void make_key(
        const unsigned char *s, size_t n, const unsigned char *end, uint64_t key[2]) {
    if (end - s >= 16) {
        memcpy(key, s, 16);
        const unsigned bits = 8 * (unsigned)n;
        const uint64_t low = n < 8 ? (1ull << bits) - 1 : UINT64_MAX;
        const uint64_t high = n <= 8 ? 0 : (1ull << (bits - 64)) - 1;
        key[0] &= low;
        key[1] &= high;
    } else {
        key[0] = key[1] = 0;
        memcpy(key, s, n);
    }
    key[1] |= (uint64_t)n << 56;
}

static void put(slot *set, uint64_t hash, const slot *new) {
    uint64_t way = hash;
    for (int i = 0; i < WAYS && set[way % WAYS].key[1]; i++)
        way++;
    set[way % WAYS] = *new; // full: the word that this one would have stood at goes
}

static inline const slot *find(const slot *set, uint64_t hash, const uint64_t key[2]) {
    for (uint64_t way = hash; way < hash + WAYS; way++) {
        const slot *s = &set[way % WAYS];
        if (s->key[0] == key[0] && s->key[1] == key[1]) return s;
    }
    return NULL;
}

static void add(
        word_cache *c, uint64_t hash, const uint64_t key[2], const int32_t *ids, int64_t n) {
    if (2 * c->n_used >= c->n_slots && c->n_slots < MOST_SLOTS) {
        slot *old = c->slots;
        const uint64_t n_old = c->n_slots;
        c->n_slots *= 4;
        c->slots = new_slots(c->n_slots);
        for (uint64_t i = 0; i < n_old; i++) {
            if (!old[i].key[1]) continue;
            const uint64_t h = key_hash(old[i].key);
            put(set_of(c, h), h, &old[i]);
        }
        pages_free(old, n_old * sizeof *old);
    }
    slot s = {.key = {key[0], key[1]}};
    memcpy(s.ids, ids, sizeof *ids * (size_t)n);
    s.ids[0] |= (uint32_t)n << 24;
    put(set_of(c, hash), hash, &s);
    c->n_used++;
}

static long_word *long_slot(word_cache *c, uint64_t hash, const unsigned char *s, size_t n) {
    for (uint64_t i = hash;; i++) {
        long_word *w = &c->longs[i & (c->n_longs - 1)];
        if (!w->n || (w->hash == hash && w->n == n && memcmp(c->pool.p + w->at, s, n) == 0))
            return w;
    }
}

static void add_long(word_cache *c, uint64_t hash, const unsigned char *s, size_t n,
        const int32_t *ids, int64_t n_ids) {
    if (c->pool.n > POOL_BYTES) clear_longs(c, c->n_longs);
    if (2 * c->n_long_used >= c->n_longs) {
        long_word *old = c->longs;
        const uint64_t n_old = c->n_longs;
        c->n_longs *= 2;
        c->longs = calloc(c->n_longs, sizeof *c->longs);
        DRV_ASSERT(c->longs, "out of memory");
        for (uint64_t i = 0; i < n_old; i++) {
            if (!old[i].n) continue;
            uint64_t at = old[i].hash;
            while (c->longs[at & (c->n_longs - 1)].n)
                at++;
            c->longs[at & (c->n_longs - 1)] = old[i];
        }
        free(old);
    }
    *long_slot(c, hash, s, n) = (long_word){hash, (int64_t)c->pool.n, (uint32_t)n, (uint32_t)n_ids};
    c->n_long_used++;
    str_add(&c->pool, s, n);
    str_add(&c->pool, "\0\0\0", (4 - c->pool.n % 4) % 4);
    str_add(&c->pool, ids, sizeof *ids * (size_t)n_ids);
}

// A word that has no slot.
static void encode_rare(word_cache *c, const unsigned char *s, size_t n, const uint64_t *key,
        uint64_t key_h, id_list *out) {
    const uint64_t hash = n <= LONG_BYTES ? XXH3_64bits(s, n) : 0;
    if (n <= LONG_BYTES) {
        const long_word *w = long_slot(c, hash, s, n);
        if (w->n) {
            const size_t at = ((size_t)w->at + n + 3) / 4 * 4;
            id_list_reserve(out, w->n_ids);
            memcpy(out->p + out->n, c->pool.p + at, sizeof *out->p * w->n_ids);
            out->n += w->n_ids;
            return;
        }
    }
    const int64_t first = out->n;
    merger_run(c->m, s, n, out);
    const int64_t n_ids = out->n - first;
    if (key && n_ids > 0 && n_ids <= SLOT_IDS)
        add(c, key_h, key, out->p + first, n_ids);
    else if (n <= LONG_BYTES)
        add_long(c, hash, s, n, out->p + first, n_ids);
}

void word_cache_encode(
        word_cache *c, const text_word *w, int n, const unsigned char *end, id_list *out) {
    uint64_t keys[SPLIT_BATCH][2], hashes[SPLIT_BATCH];
    for (int i = 0; i < n; i++) {
        if (w[i].n > KEY_BYTES) continue;
        make_key(w[i].s, w[i].n, end, keys[i]);
        hashes[i] = key_hash(keys[i]);
        __builtin_prefetch(set_of(c, hashes[i]) + hashes[i] % WAYS);
    }
    id_list_reserve(out, (int64_t)SLOT_IDS * n);
    for (int i = 0; i < n; i++) {
        const bool is_short = w[i].n <= KEY_BYTES;
        if (is_short) {
            const slot *found = find(set_of(c, hashes[i]), hashes[i], keys[i]);
            if (found) {
                int32_t *to = out->p + out->n;
                memcpy(to, found->ids, sizeof found->ids);
                to[0] = (int32_t)(found->ids[0] & 0xFFFFFF);
                out->n += found->ids[0] >> 24;
                continue;
            }
        }
        encode_rare(c, w[i].s, w[i].n, is_short ? keys[i] : NULL, is_short ? hashes[i] : 0, out);
        id_list_reserve(out, (int64_t)SLOT_IDS * (n - i));
    }
}
