// Dropout: 64 words of Philox at a time, in loops over 16 counters that the compiler turns into
// vectors. The words are those of base/rng.h, to the bit.
#pragma once
#include "kernels/ref/ref.h"
#include "kernels/x86/vec.h"

enum { COUNTERS = DROPOUT_GROUP / 4 };

// Word w of counter i is that of element w * COUNTERS + i of its group.
typedef struct counters {
    uint32_t word[4][COUNTERS];
} counters;

// One round of Philox4x32 (doi:10.1145/2063384.2063405, section 2.3) on all counters.
INLINE void philox_round(counters *c, uint32_t k0, uint32_t k1) {
    for (int i = 0; i < COUNTERS; i++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c->word[0][i];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c->word[2][i];
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c->word[1][i] ^ k0;
        const uint32_t n2 = (uint32_t)(p0 >> 32) ^ c->word[3][i] ^ k1;
        c->word[1][i] = (uint32_t)p1;
        c->word[3][i] = (uint32_t)p0;
        c->word[0][i] = n0;
        c->word[2][i] = n2;
    }
}

// The random words of a group of elements.
INLINE void words_of_group(const dropout_args *args, int64_t group, counters *c) {
    const uint64_t block = dropout_block(args, group);
    uint32_t k0 = (uint32_t)args->key.seed;
    uint32_t k1 = (uint32_t)(args->key.seed >> 32) ^ (args->key.purpose * 0x85EBCA6Bu);
    for (int i = 0; i < COUNTERS; i++) {
        c->word[0][i] = (uint32_t)(block + (uint64_t)i);
        c->word[1][i] = (uint32_t)((block + (uint64_t)i) >> 32);
        c->word[2][i] = (uint32_t)args->key.step;
        c->word[3][i] = (uint32_t)(args->key.step >> 32);
    }
    for (int round = 0; round < 10; round++) {
        philox_round(c, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

INLINE void dropout_as(dtype dt, const dropout_args *args, int64_t first, int64_t n, const void *x,
        void *y) {
    const uint32_t threshold = dropout_threshold(args);
    const float scale = (float)(1 / (1 - args->rate));
    for (int64_t i = 0; i < n;) {
        const int64_t e = first + i, in_group = e % DROPOUT_GROUP;
        const int64_t left = n - i,
                      m = left < DROPOUT_GROUP - in_group ? left : DROPOUT_GROUP - in_group;
        float factor[DROPOUT_GROUP];
        counters c;
        words_of_group(args, e / DROPOUT_GROUP, &c);
        for (int j = 0; j < DROPOUT_GROUP; j++)
            factor[j] = c.word[j / COUNTERS][j % COUNTERS] >= threshold ? scale : 0;
        FOR_VECTORS(j, k, m, {
            const vec v = v_mul(v_load_as(dt, x, i + j, k), v_load(factor + in_group + j, k));
            v_store_as(dt, y, i + j, v, k);
        });
        i += m;
    }
}
static void dropout(dtype dt, const dropout_args *args, int64_t first, int64_t n, const void *x,
        void *y) {
    if (dt == DT_F64)
        kernels_ref.dropout(dt, args, first, n, x, y);
    else if (dt == DT_BF16)
        dropout_as(DT_BF16, args, first, n, x, y);
    else
        dropout_as(DT_F32, args, first, n, x, y);
}
