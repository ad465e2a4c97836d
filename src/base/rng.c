// Philox counter-based random numbers, normal deviates from them, and the shuffle of rows.
#include "base/rng.h"

#include <math.h>

#include "base/elementary.h"
#include "base/status.h"

void rng_block(const rng_key *k, uint64_t block, uint32_t out[4]) {
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)k->step,
            (uint32_t)(k->step >> 32)};
    uint32_t k0 = (uint32_t)k->seed, k1 = (uint32_t)(k->seed >> 32) ^ (k->purpose * 0x85EBCA6Bu);
    for (int r = 0; r < 10; r++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

uint64_t rng_u64(const rng_key *k, uint64_t index) {
    uint32_t w[4];
    rng_block(k, index, w);
    return (uint64_t)w[0] << 32 | w[1];
}

double rng_uniform(const rng_key *k, uint64_t index) {
    return (double)(rng_u64(k, index) >> 11) * 0x1p-53;
}

// Returns the two normal numbers of words a and b.
static void normal_pair(float sigma, uint32_t a, uint32_t b, float out[2]) {
    const float r = sigma * sqrtf(-2 * (float)drv_log((double)(((float)(a >> 8) + 1) * 0x1p-24f)));
    const double t = (double)(6.28318530717958647692f * ((float)(b >> 8) * 0x1p-24f));
    out[0] = r * (float)drv_cos(t);
    out[1] = r * (float)drv_sin(t);
}

void rng_normal_fill(const rng_key *k, uint64_t first, int64_t n, double sigma, float *out) {
    for (int64_t i = 0; i < n;) {
        const uint64_t e = first + (uint64_t)i;
        uint32_t w[4];
        float four[4];
        rng_block(k, e / 4, w);
        normal_pair((float)sigma, w[0], w[1], four);
        normal_pair((float)sigma, w[2], w[3], four + 2);
        for (uint64_t j = e % 4; j < 4 && i < n; j++, i++)
            out[i] = four[j];
    }
}

uint64_t hash_name(const char *s) {
    uint64_t h = 0xCBF29CE484222325ull;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001B3ull;
    return h;
}

permutation permutation_of(uint64_t n, uint64_t seed, uint64_t epoch) {
    int bits = 1;
    while (bits < 31 && (1ull << (2 * bits)) < n)
        bits++;
    return (permutation){n, seed, epoch, bits};
}

uint64_t permute(const permutation *p, uint64_t i) {
    DRV_ASSERT(i < p->n, "index %llu of %llu", (unsigned long long)i, (unsigned long long)p->n);
    const uint64_t mask = (1ull << p->half_bits) - 1;
    const rng_key key = {p->seed, RNG_SHUFFLE, p->epoch};
    do {
        uint64_t left = i >> p->half_bits, right = i & mask;
        for (uint64_t round = 0; round < 6; round++) {
            uint32_t w[4];
            rng_block(&key, right | round << 40, w);
            uint64_t next = left ^ (w[0] & mask);
            left = right;
            right = next;
        }
        i = left << p->half_bits | right;
    } while (i >= p->n);
    return i;
}
