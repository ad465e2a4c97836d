// The table of short words that all threads share.
#include "tok/word_table.h"

#include <string.h>

#include "base/arena.h"

bool word_table_open(word_table *t) {
    t->slots = pages_alloc(WORD_SLOTS * sizeof *t->slots);
    atomic_store(&t->n_used, 0);
    return t->slots != NULL;
}

void word_table_close(word_table *t) {
    pages_free(t->slots, WORD_SLOTS * sizeof *t->slots);
    t->slots = NULL;
}

void word_table_clear(word_table *t) {
    memset((void *)t->slots, 0, WORD_SLOTS * sizeof *t->slots);
    atomic_store(&t->n_used, 0);
}

bool word_table_is_full(word_table *t) {
    return atomic_load_explicit(&t->n_used, memory_order_relaxed) > WORD_SLOTS / 4 * 3;
}

void word_table_add(word_table *t, uint64_t hash, const word_key *key, const word_ids *ids) {
    word_slot *set = word_set(t, hash);
    for (uint64_t k = 0; k < WORD_WAYS; k++) {
        word_slot *s = &set[(hash ^ k) % WORD_WAYS];
        uint64_t empty = 0, packed[2];
        if (!atomic_compare_exchange_strong(&s->key[1], &empty, UINT64_MAX)) continue;
        memcpy(packed, ids, sizeof packed);
        atomic_store_explicit(&s->key[0], key->part[0], memory_order_relaxed);
        atomic_store_explicit(&s->ids[0], packed[0], memory_order_relaxed);
        atomic_store_explicit(&s->ids[1], packed[1], memory_order_relaxed);
        atomic_store_explicit(&s->key[1], key->part[1], memory_order_release);
        atomic_fetch_add_explicit(&t->n_used, 1, memory_order_relaxed);
        return;
    }
}
