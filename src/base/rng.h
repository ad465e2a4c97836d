// Counter-based random numbers: a value is f(seed, purpose, step, index), so resuming, re-sharding
// and threading keep every number. Philox4x32-10, Salmon et al., SC 2011,
// doi:10.1145/2063384.2063405.
#pragma once
#include <stdint.h>

typedef enum rng_purpose {
    RNG_INIT = 1, // step = hash of the tensor's name, index = element
    RNG_SHUFFLE,  // step = epoch, index = round of the permutation
    RNG_SAMPLE,   // step = token position while generating
    RNG_TEST,
    RNG_DROPOUT, // step = number of the row in the run, index = site and element
    RNG_UPDATE,  // of tensors, for stochastic rounding (stochastic.h): step = hash of the name
    RNG_GRADIENT,
} rng_purpose;

typedef struct rng_key {
    uint64_t seed;
    uint32_t purpose;
    uint64_t step;
} rng_key;

// Computes the four words of the counter `block`.
void rng_block(const rng_key *k, uint64_t block, uint32_t out[4]);
uint64_t rng_u64(const rng_key *k, uint64_t index);   // the first two words of counter `index`
double rng_uniform(const rng_key *k, uint64_t index); // in [0, 1), 53 bits

// Sets out[i] to the normal number of element `first + i`, with mean 0 and standard deviation
// sigma: Box and Muller's method on pairs of elements, so the value of an element does not depend
// on `first`.
void rng_normal_fill(const rng_key *k, uint64_t first, int64_t n, double sigma, float *out);

uint64_t hash_name(const char *s); // FNV-1a, 64 bit

// A permutation of [0, n) in O(1) memory: six Feistel rounds over the next even power of two,
// walked until the image lies inside ("cycle walking", Black and Rogaway 2002).
typedef struct permutation {
    uint64_t n, seed, epoch;
    int half_bits;
} permutation;
permutation permutation_of(uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t permute(const permutation *p, uint64_t i); // i < n
