#include "tok/word_cache.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// A word of up to 15 bytes is its own key: the bytes, zeros, the length in the last one. Four ids
// lie beside it, so that a hit touches one cache line and is copied without a branch.
enum { KEY_BYTES = 15, SLOT_IDS = 4, WAYS = 4, LEAST_SLOTS = 1 << 12, MOST_SLOTS = 1 << 20 };
enum { IN_POOL = 0xFF }; // more ids: ids[1] in the pool from element ids[2] on

typedef struct slot {
    uint64_t key[2];        // key[1] 0: empty
    uint32_t ids[SLOT_IDS]; // the number of ids in the top 8 bits of the first
} slot;

// Longer words by their hash; their bytes and ids lie in pools.
enum { LEAST_LONG = 1 << 10, LONG_BYTES = 1024, POOL_BYTES = 32 << 20 };
typedef struct long_word {
    uint64_t hash;
    size_t text;
    int64_t first_id;
    uint32_t n, n_ids; // n 0: empty
} long_word;

struct word_cache {
    merger *m;
    slot *slots; // WAYS of one set lie in 128 aligned bytes
    uint64_t n_slots, n_used;
    long_word *longs;
    uint64_t n_longs, n_long_used;
    str text;
    id_list pool;
};

static slot *new_slots(uint64_t n) {
    slot *p = pages_alloc(n * sizeof *p);
    DRV_ASSERT(p, "out of memory");
    return p;
}

static long_word *new_longs(uint64_t n) {
    long_word *p = calloc(n, sizeof *p);
    DRV_ASSERT(p, "out of memory");
    return p;
}

word_cache *word_cache_new(const tokenizer *t) {
    word_cache *c = mem_alloc(sizeof *c);
    *c = (word_cache){.m = merger_new(t), .n_slots = LEAST_SLOTS, .n_longs = LEAST_LONG};
    c->slots = new_slots(c->n_slots);
    c->longs = new_longs(c->n_longs);
    return c;
}

void word_cache_free(word_cache *c) {
    if (!c) return;
    merger_free(c->m);
    pages_free(c->slots, c->n_slots * sizeof *c->slots);
    free(c->longs);
    str_free(&c->text);
    id_list_free(&c->pool);
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

static int64_t keep_ids(word_cache *c, const int32_t *ids, int64_t n) {
    const int64_t first = c->pool.n;
    id_list_reserve(&c->pool, n);
    if (n) memcpy(c->pool.p + first, ids, sizeof *ids * (size_t)n);
    c->pool.n += n;
    return first;
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
    if (n > 0 && n <= SLOT_IDS) {
        memcpy(s.ids, ids, sizeof *ids * (size_t)n);
        s.ids[0] |= (uint32_t)n << 24;
    } else {
        s.ids[0] = (uint32_t)IN_POOL << 24;
        s.ids[1] = (uint32_t)n;
        s.ids[2] = (uint32_t)keep_ids(c, ids, n);
    }
    put(set_of(c, hash), hash, &s);
    c->n_used++;
}

static long_word *long_slot(word_cache *c, uint64_t hash, const unsigned char *s, size_t n) {
    for (uint64_t i = hash;; i++) {
        long_word *w = &c->longs[i & (c->n_longs - 1)];
        if (!w->n || (w->hash == hash && w->n == n && memcmp(c->text.p + w->text, s, n) == 0))
            return w;
    }
}

static void add_long(word_cache *c, uint64_t hash, const unsigned char *s, size_t n,
        const int32_t *ids, int64_t n_ids) {
    if (2 * c->n_long_used >= c->n_longs) {
        long_word *old = c->longs;
        const uint64_t n_old = c->n_longs;
        c->n_longs *= 2;
        c->longs = new_longs(c->n_longs);
        for (uint64_t i = 0; i < n_old; i++) {
            if (!old[i].n) continue;
            uint64_t at = old[i].hash;
            while (c->longs[at & (c->n_longs - 1)].n)
                at++;
            c->longs[at & (c->n_longs - 1)] = old[i];
        }
        free(old);
    }
    *long_slot(c, hash, s, n) =
            (long_word){hash, c->text.n, keep_ids(c, ids, n_ids), (uint32_t)n, (uint32_t)n_ids};
    c->n_long_used++;
    str_add(&c->text, s, n);
}

// All at once when the pools are full: a slot may point into them.
static void forget(word_cache *c) {
    memset(c->slots, 0, c->n_slots * sizeof *c->slots);
    memset(c->longs, 0, c->n_longs * sizeof *c->longs);
    c->n_used = c->n_long_used = 0;
    str_clear(&c->text);
    c->pool.n = 0;
}

static void copy_ids(id_list *out, const id_list *pool, int64_t first, uint32_t n) {
    id_list_reserve(out, n);
    if (n) memcpy(out->p + out->n, pool->p + first, sizeof *out->p * n);
    out->n += n;
}

static void make_room(word_cache *c) {
    if (c->text.n + sizeof *c->pool.p * (size_t)c->pool.n > POOL_BYTES) forget(c);
}

static void encode_long(word_cache *c, const unsigned char *s, size_t n, id_list *out) {
    if (n > LONG_BYTES) {
        merger_run(c->m, s, n, out);
        return;
    }
    const uint64_t hash = XXH3_64bits(s, n);
    const long_word *w = long_slot(c, hash, s, n);
    if (w->n) {
        copy_ids(out, &c->pool, w->first_id, w->n_ids);
        return;
    }
    const int64_t first = out->n;
    merger_run(c->m, s, n, out);
    make_room(c);
    add_long(c, hash, s, n, out->p + first, out->n - first);
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
        if (w[i].n > KEY_BYTES) {
            encode_long(c, w[i].s, w[i].n, out);
            id_list_reserve(out, (int64_t)SLOT_IDS * (n - i));
            continue;
        }
        const slot *found = find(set_of(c, hashes[i]), hashes[i], keys[i]);
        if (found && found->ids[0] >> 24 != IN_POOL) {
            int32_t *to = out->p + out->n;
            memcpy(to, found->ids, sizeof found->ids);
            to[0] = (int32_t)(found->ids[0] & 0xFFFFFF);
            out->n += found->ids[0] >> 24;
            continue;
        }
        if (found) {
            copy_ids(out, &c->pool, found->ids[2], found->ids[1]);
        } else {
            const int64_t first = out->n;
            merger_run(c->m, w[i].s, w[i].n, out);
            make_room(c);
            add(c, hashes[i], keys[i], out->p + first, out->n - first);
        }
        id_list_reserve(out, (int64_t)SLOT_IDS * (n - i));
    }
}
