// Dropout: random words for 64 elements at a time, in vectors. They are those of
// base/rng.h, to the bit.
#pragma once
#include "kernels/ref/ref.h"
#include "kernels/levels/vec.h"

// WIDTH counters of Philox4x32, a word of all of them in each vector.
typedef struct counters {
    ints word[4];
} counters;

// doi:10.1145/2063384.2063405, section 2.3
INLINE void philox_round(counters *c, uint32_t k0, uint32_t k1) {
    ints high0, high1;
    const ints low0 = i_mul(c->word[0], 0xD2511F53u, &high0),
               low1 = i_mul(c->word[2], 0xCD9E8D57u, &high1);
    c->word[0] = i_xor(i_xor(high1, c->word[1]), i_set(k0));
    c->word[2] = i_xor(i_xor(high0, c->word[3]), i_set(k1));
    c->word[1] = low1;
    c->word[3] = low0;
}

INLINE void philox(const rng_key *key, uint64_t block, counters *c) {
    uint32_t k0 = (uint32_t)key->seed;
    uint32_t k1 = (uint32_t)(key->seed >> 32) ^ (key->purpose * 0x85EBCA6Bu);
    c->word[0] = i_count((uint32_t)block); // a group begins at a multiple of 16: no carry
    c->word[1] = i_set((uint32_t)(block >> 32));
    c->word[2] = i_set((uint32_t)key->step);
    c->word[3] = i_set((uint32_t)(key->step >> 32));
    for (int round = 0; round < 10; round++) {
        philox_round(c, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

// Computes the factors of the elements of a group.
INLINE void factors_of_group(const dropout_args *args, int64_t group, float scale,
        float factor[DROPOUT_GROUP]) {
    enum { COUNTERS = DROPOUT_GROUP / 4 };
    const ints threshold = i_set(dropout_threshold(args));
    for (int i = 0; i < COUNTERS; i += WIDTH) {
        counters c;
        philox(&args->key, dropout_block(args, group) + (uint64_t)i, &c);
        for (int w = 0; w < 4; w++)
            v_store(factor + w * COUNTERS + i, v_if_at_least(c.word[w], threshold, v_set(scale)),
                    WIDTH);
    }
}

INLINE void dropout_as(dtype dt, const dropout_args *args, int64_t first, int64_t n, const void *x,
        void *y) {
    const float scale = (float)(1 / (1 - args->rate));
    for (int64_t i = 0; i < n;) {
        const int64_t in_group = (first + i) % DROPOUT_GROUP;
        const int64_t rest = DROPOUT_GROUP - in_group, m = n - i < rest ? n - i : rest;
        float factor[DROPOUT_GROUP];
        factors_of_group(args, (first + i) / DROPOUT_GROUP, scale, factor);
        FOR_VECTORS(j, k, m, {
            const vec v = v_mul(v_load_as(dt, x, i + j, k), v_load(factor + in_group + j, k));
            v_store_as(dt, y, i + j, v, k);
        });
        i += m;
    }
}
static void dropout(dtype dt, const dropout_args *args, int64_t first, int64_t n, const void *x,
        void *y) {
    BY_TYPE(kernels_ref.dropout, dropout_as, dt, args, first, n, x, y);
}
