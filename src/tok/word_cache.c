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

// A word that is not in its first slot.
static void encode_rare(word_cache *c, const unsigned char *s, size_t n, const word_key *key,
        word_slot *first, id_list *out) {
    const bool is_short = n <= WORD_KEY_BYTES;
    if (is_short) {
        id_list_reserve(out, WORD_MANY_IDS);
        const int n_ids = word_table_find(c->table, first, key, out->p + out->n);
        out->n += n_ids;
        if (n_ids) return;
    }
    const uint64_t hash = n <= LONG_BYTES ? XXH3_64bits(s, n) : 0;
    const long_word *known = n <= LONG_BYTES ? long_slot(c, hash, s, n) : NULL;
    if (known && known->n) {
        id_list_append(out, c->ids.p + known->first_id, known->n_ids);
        return;
    }
    const int64_t from = out->n;
    merger_run(c->m, s, n, out);
    const int32_t *ids = out->p + from;
    const int64_t n_ids = out->n - from;
    const bool fits = is_short && n_ids > 0 && n_ids <= WORD_MANY_IDS;
    if (fits && word_table_add(c->table, first, key, ids, (int)n_ids)) return;
    if (known) add_long(c, hash, s, n, ids, n_ids);
}

// Which bytes of the 16 that lie at a word of n bytes belong to it. A word of 16 or more has no
// key: it gets one that no word has.
#define BYTES(n)                                                                                   \
    { (n) >= 8 ? UINT64_MAX : (1ull << (n) % 8 * 8) - 1, (n) <= 8 ? 0 : (1ull << (n) % 8 * 8) - 1 }
static const uint64_t key_bytes[WORD_KEY_BYTES + 2][2] = {BYTES(0), BYTES(1), BYTES(2), BYTES(3),
        BYTES(4), BYTES(5), BYTES(6), BYTES(7), BYTES(8), BYTES(9), BYTES(10), BYTES(11), BYTES(12),
        BYTES(13), BYTES(14), BYTES(15), {0, 0}};

static inline word_key make_key(const unsigned char *s, size_t n) {
    const size_t k = n <= WORD_KEY_BYTES ? n : WORD_KEY_BYTES + 1;
    uint64_t part[2];
    memcpy(part, s, sizeof part);
    return (word_key){{part[0] & key_bytes[k][0], (part[1] & key_bytes[k][1]) | (uint64_t)k << 56}};
}

// A word so near to the end of the text that 16 bytes cannot be read.
static word_key make_last_key(const unsigned char *s, size_t n) {
    unsigned char bytes[WORD_KEY_BYTES + 1] = {0};
    if (n <= WORD_KEY_BYTES) memcpy(bytes, s, n);
    return make_key(bytes, n);
}

void word_cache_encode(word_cache *c, const unsigned char *const *at, int n,
        const unsigned char *end, id_list *out) {
    word_key keys[SPLIT_BATCH];
    word_slot *slots[SPLIT_BATCH];
    int n_safe = n;
    while (n_safe > 0 && end - at[n_safe - 1] <= WORD_KEY_BYTES)
        n_safe--;
    for (int i = 0; i < n; i++) {
        const size_t bytes = (size_t)(at[i + 1] - at[i]);
        keys[i] = i < n_safe ? make_key(at[i], bytes) : make_last_key(at[i], bytes);
        slots[i] = word_first_slot(c->table, &keys[i]);
        __builtin_prefetch(slots[i]);
    }
    id_list_reserve(out, (int64_t)WORD_IDS * n);
    int32_t *to = out->p + out->n;
    for (int i = 0; i < n; i++) {
        if (__builtin_expect(word_slot_has(slots[i], &keys[i]), 1)) {
            to = word_slot_put(slots[i], to);
            continue;
        }
        out->n = to - out->p;
        encode_rare(c, at[i], (size_t)(at[i + 1] - at[i]), &keys[i], slots[i], out);
        id_list_reserve(out, (int64_t)WORD_IDS * (n - i));
        to = out->p + out->n;
    }
    out->n = to - out->p;
}
