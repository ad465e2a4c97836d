// Stochastic rounding of fp32 to bf16: up or down with the probability that makes the mean exact,
// so that updates below half a unit are not lost over many steps (arXiv:2010.06192). The
// random bits of an element are a function of seed, purpose, step, tensor and its number in the
// whole tensor: never of threads, of how ranks share the tensor, or of the back end.
//
//   {a, b} = a hash of the tensor's words for this purpose (rounding_keys) and of the step
//   h1 = mix(e ^ a), h2 = mix(h1 + b)           e: number of the element, modulo 2^32
//
// h1 has the random bits of two values, in its lower and its upper half, h2 those of a third.
// Philox (rng.h) makes the tensor's words. The elements have a cheaper hash, since a step rounds
// three values for each element of a weight.
#pragma once
#include <stdint.h>

#include "base/dtype.h"
#include "base/rng.h"

// A bijection of 32-bit words: two multiplications between shifts, the constants with the lowest
// bias found by github.com/skeeto/hash-prospector (issue 19).
enum { MIX_SHIFT1 = 16, MIX_SHIFT2 = 15, MIX_SHIFT3 = 15 };
#define MIX_FACTOR1 0x21F0AAADu
#define MIX_FACTOR2 0x735A2D97u
static inline uint32_t mix32(uint32_t x) {
    x = (x ^ x >> MIX_SHIFT1) * MIX_FACTOR1;
    x = (x ^ x >> MIX_SHIFT2) * MIX_FACTOR2;
    return x ^ x >> MIX_SHIFT3;
}

// The keys of a tensor, for a purpose (RNG_UPDATE, RNG_GRADIENT), in all steps.
typedef struct rounding_keys {
    uint32_t key[2];
} rounding_keys;
static inline rounding_keys rounding_keys_of(uint64_t seed, rng_purpose purpose, const char *name) {
    const rng_key key = {seed, (uint32_t)purpose, hash_name(name)};
    uint32_t words[4];
    rng_block(&key, 0, words);
    return (rounding_keys){{words[0], words[1]}};
}

// Returns a step of 32 bits for a number of 64 bits.
static inline uint32_t rounding_step(uint32_t low, uint32_t high) {
    return low ^ mix32(high);
}

// The keys of a tensor in a step, and the first element that is rounded.
typedef struct rounding {
    uint32_t a, b, first;
} rounding;
static inline rounding rounding_of(const rounding_keys *keys, uint32_t step, uint32_t first) {
    const uint32_t a = mix32(keys->key[0] + mix32(step));
    return (rounding){a, mix32(keys->key[1] ^ a), first};
}
static inline uint32_t rounding_word1(const rounding *r, uint32_t i) {
    return mix32((r->first + i) ^ r->a);
}
static inline uint32_t rounding_word2(const rounding *r, uint32_t word1) {
    return mix32(word1 + r->b);
}

// Rounds x to bf16: away from zero if its lower 16 bits and those of `bits` add to 2^16 or more,
// else toward zero. A value that would become infinite is truncated instead; infinity and NaN are
// unchanged.
static inline uint16_t f32_to_bf16_by(float x, uint32_t bits) {
    uint32_t u;
    memcpy(&u, &x, 4);
    const uint32_t sum = u + (bits & 0xFFFF);
    if ((u & 0x7F800000u) == 0x7F800000u) return f32_to_bf16(x);
    return (uint16_t)(((sum & 0x7F800000u) == 0x7F800000u ? u : sum) >> 16);
}
