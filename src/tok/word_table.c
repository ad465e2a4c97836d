// The table of short words that all threads share.
#include "tok/word_table.h"

#include <string.h>

#include "base/arena.h"
#include "base/round.h"

enum { MANY_IDS = 1 << 20 }; // ids for all words that have more than WORD_IDS
_Static_assert(WORD_MANY_IDS % WORD_IDS == 0, "they are copied by so many");

bool word_table_open(word_table *t) {
    *t = (word_table){.slots = pages_alloc(WORD_SLOTS * sizeof *t->slots),
            .many = pages_alloc(MANY_IDS * sizeof *t->many)};
    if (t->slots && t->many) return true;
    word_table_close(t);
    return false;
}

void word_table_close(word_table *t) {
    pages_free(t->slots, WORD_SLOTS * sizeof *t->slots);
    pages_free(t->many, MANY_IDS * sizeof *t->many);
    *t = (word_table){0};
}

void word_table_clear(word_table *t) {
    memset((void *)t->slots, 0, WORD_SLOTS * sizeof *t->slots);
    atomic_store(&t->n_used, 0);
    atomic_store(&t->n_many, 0);
}

bool word_table_is_full(word_table *t) {
    return atomic_load_explicit(&t->n_used, memory_order_relaxed) > WORD_SLOTS / 4 * 3;
}

// Returns slot `way` of a set, counted from `first`: 1 is the other one of its cache line.
static word_slot *slot_of_set(word_slot *first, unsigned way) {
    return (word_slot *)((uintptr_t)first ^ way * sizeof *first);
}

static bool has_room_beside(const word_table *t) {
    return atomic_load_explicit(&t->n_many, memory_order_relaxed) + WORD_MANY_IDS <= MANY_IDS;
}

int word_table_find(const word_table *t, word_slot *first, const word_key *key, int32_t *to) {
    for (unsigned way = 0; way < WORD_WAYS; way++) {
        const word_slot *s = slot_of_set(first, way);
        const uint64_t high = atomic_load_explicit(&s->key[1], memory_order_acquire);
        if (high == 0) return has_room_beside(t) ? 0 : -1; // slots are filled in this order
        if ((high & ~WORD_MANY) != key->part[1] ||
                atomic_load_explicit(&s->key[0], memory_order_relaxed) != key->part[0])
            continue;
        if (!(high & WORD_MANY)) return (int)(word_slot_put(s, to) - to);
        const uint64_t at = atomic_load_explicit(&s->ids[0], memory_order_relaxed),
                       n = atomic_load_explicit(&s->ids[1], memory_order_relaxed);
        for (uint64_t i = 0; i < n; i += WORD_IDS) // copies of constant size
            memcpy(to + i, t->many + at + i, WORD_IDS * sizeof *to);
        return (int)n;
    }
    return -1;
}

// Packs ids into the two words that a slot has for them. False: `many` has no room.
static bool pack_ids(word_table *t, const int32_t *ids, int n, uint64_t packed[2]) {
    if (n <= WORD_IDS) {
        int32_t few[WORD_IDS] = {0};
        memcpy(few, ids, sizeof *ids * (size_t)n);
        memcpy(packed, few, sizeof few);
        packed[0] |= (uint64_t)n << 24;
        return true;
    }
    const uint64_t room = (uint64_t)round_up(n, WORD_IDS); // readers copy all of it
    packed[0] = atomic_fetch_add_explicit(&t->n_many, room, memory_order_relaxed);
    packed[1] = (uint64_t)n;
    if (packed[0] + WORD_MANY_IDS > MANY_IDS) return false;
    memcpy(t->many + packed[0], ids, sizeof *ids * (size_t)n);
    return true;
}

bool word_table_add(word_table *t, word_slot *first, const word_key *key, const int32_t *ids,
        int n) {
    uint64_t packed[2];
    if (!pack_ids(t, ids, n, packed)) return false;
    for (unsigned way = 0; way < WORD_WAYS; way++) {
        word_slot *s = slot_of_set(first, way);
        uint64_t empty = 0;
        if (!atomic_compare_exchange_strong(&s->key[1], &empty, UINT64_MAX)) continue;
        atomic_store_explicit(&s->key[0], key->part[0], memory_order_relaxed);
        atomic_store_explicit(&s->ids[0], packed[0], memory_order_relaxed);
        atomic_store_explicit(&s->ids[1], packed[1], memory_order_relaxed);
        atomic_store_explicit(&s->key[1], key->part[1] | (n > WORD_IDS ? WORD_MANY : 0),
                memory_order_release);
        atomic_fetch_add_explicit(&t->n_used, 1, memory_order_relaxed);
        return true;
    }
    return false;
}
