// The words that all threads have seen, with their ids, for words of at most 15 bytes. Lock-free: a
// slot is written once and stays until the table is cleared, so a reader that finds a key finds all
// of its ids.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    WORD_KEY_BYTES = 15,
    WORD_IDS = 4,       // ids that fit in the slot itself
    WORD_MANY_IDS = 16, // most ids of a word in the table; more than 4 are in `many`
};

// The key of a word: its bytes, zeros, and its length in the last byte.
typedef struct word_key {
    uint64_t part[2];
} word_key;

// A word and its ids. Up to 4 ids are in the slot: 24 bits each, with their number in the top byte
// of the first. A word with more ids has WORD_MANY in its key, so that a look-up for few ids does
// not find it; `ids` then holds its index in table->many and the number of its ids.
typedef struct word_slot {
    _Atomic uint64_t key[2]; // key[1]: 0 empty, UINT64_MAX being written
    _Atomic uint64_t ids[2];
} word_slot;
#define WORD_MANY (1ull << 63)

typedef struct word_table {
    word_slot *slots; // the 4 slots of a set are 128 aligned bytes, 2 in each cache line
    int32_t *many;    // ids of words that have more than 4
    _Atomic uint64_t n_used, n_many;
} word_table;

bool word_table_open(word_table *t); // false: out of memory. Reserves 36 MiB of untouched pages
void word_table_close(word_table *t);
void word_table_clear(word_table *t); // no other thread may use it meanwhile
bool word_table_is_full(word_table *t);

enum { WORD_WAYS = 4, WORD_SLOT_BITS = 20, WORD_SLOTS = 1 << WORD_SLOT_BITS };

// Returns the slot at which the search in a set begins. The halves of the 128-bit product are
// xored, so that every bit of the key counts (as in wyhash).
static inline uint64_t word_place(const word_key *k) {
    __extension__ typedef unsigned __int128 u128;
    const u128 product =
            (u128)(k->part[0] ^ 0x9E3779B97F4A7C15ull) * (k->part[1] ^ 0xD6E8FEB86659FD93ull);
    const uint64_t hash = (uint64_t)(product >> 64) ^ (uint64_t)product;
    return hash >> (64 - WORD_SLOT_BITS);
}

// Returns whether the slot has this key; if so, its ids are complete.
static inline bool word_slot_has(const word_slot *s, const word_key *key) {
    const uint64_t high = atomic_load_explicit(&s->key[1], memory_order_acquire) ^ key->part[1];
    const uint64_t low = atomic_load_explicit(&s->key[0], memory_order_relaxed) ^ key->part[0];
    return (high | low) == 0;
}

// Writes 4 ids, of which only the first ones belong to the word, and returns the end of the latter.
static inline int32_t *word_slot_put(const word_slot *s, int32_t *to) {
    const uint64_t ids[2] = {atomic_load_explicit(&s->ids[0], memory_order_relaxed),
            atomic_load_explicit(&s->ids[1], memory_order_relaxed)};
    const uint64_t first = ids[0] & ~0xFF000000ull;
    __builtin_memcpy(to, &first, sizeof first);
    __builtin_memcpy(to + 2, &ids[1], sizeof ids[1]);
    return to + (uint8_t)(ids[0] >> 24);
}

// Searches the whole set. Writes the ids of the word to to[WORD_MANY_IDS], whose other elements are
// undefined, and returns their number. 0: the set lacks the word; -1: it also has no room for it.
int word_table_find(const word_table *t, word_slot *first, const word_key *key, int32_t *to);
// Adds a word with 1 to WORD_MANY_IDS ids. False: there is no room.
bool word_table_add(word_table *t, word_slot *first, const word_key *key, const int32_t *ids,
        int n);
