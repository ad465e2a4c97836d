// The words that all threads have seen, with their ids, for words of at most 15 bytes and 4 ids.
// Lock free: a slot is written once and stays until the table is cleared, so a reader that finds a
// key finds its ids whole.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { WORD_KEY_BYTES = 15, WORD_IDS = 4 };

// A word is its own key: the bytes, zeros, the length in the last byte.
typedef struct word_key {
    uint64_t part[2];
} word_key;

// Ids of 24 bits; their number, 1 to 4, in the top byte of the first.
typedef struct word_ids {
    uint32_t id[WORD_IDS];
} word_ids;

typedef struct word_slot {
    _Atomic uint64_t key[2]; // key[1]: 0 empty, UINT64_MAX being written
    _Atomic uint64_t ids[2];
} word_slot;

typedef struct word_table {
    word_slot *slots; // 4 of one set lie in 128 aligned bytes
    _Atomic uint64_t n_used;
} word_table;

bool word_table_open(word_table *t); // false: out of memory. 32 MiB, touched as they are needed
void word_table_close(word_table *t);
void word_table_clear(word_table *t); // no other thread may use it meanwhile
bool word_table_is_full(word_table *t);

// Does nothing when there is no room.
void word_table_add(word_table *t, uint64_t hash, const word_key *key, const word_ids *ids);

enum { WORD_WAYS = 4, WORD_SLOTS = 1 << 20 };

static inline uint64_t word_hash(const word_key *k) {
    uint64_t h = (k->part[0] ^ (k->part[1] * 0x9E3779B97F4A7C15ull)) * 0xD6E8FEB86659FD93ull;
    h ^= h >> 32;
    return h * 0xD6E8FEB86659FD93ull;
}

static inline word_slot *word_set(const word_table *t, uint64_t hash) {
    return t->slots + ((hash >> 32) & (WORD_SLOTS / WORD_WAYS - 1)) * WORD_WAYS;
}

static inline void word_table_prefetch(const word_table *t, uint64_t hash) {
    __builtin_prefetch(word_set(t, hash) + hash % WORD_WAYS);
}

static inline bool word_table_find(const word_table *t, uint64_t hash, const word_key *key,
        word_ids *out) {
    word_slot *set = word_set(t, hash);
    for (uint64_t k = 0; k < WORD_WAYS; k++) {
        word_slot *s = &set[(hash ^ k) % WORD_WAYS]; // first the two of one cache line
        if (atomic_load_explicit(&s->key[1], memory_order_acquire) != key->part[1] ||
                atomic_load_explicit(&s->key[0], memory_order_relaxed) != key->part[0])
            continue;
        const uint64_t ids[2] = {atomic_load_explicit(&s->ids[0], memory_order_relaxed),
                atomic_load_explicit(&s->ids[1], memory_order_relaxed)};
        __builtin_memcpy(out, ids, sizeof ids);
        return true;
    }
    return false;
}
