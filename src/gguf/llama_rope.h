// llama3 scaling of the rotary frequencies, as in rope_scaling of config.json (arXiv:2407.21783 and
// the 3.1 release), and as in GGUF: one divisor for each frequency, in rope_freqs.weight.
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct llama3_rope {
    double factor, low_freq_factor, high_freq_factor;
    int64_t original_context; // tokens; 0: no scaling
} llama3_rope;

// Computes the divisors of head_dim / 2 frequencies: 1 for short wavelengths, `factor` for long
// ones, and values between, interpolated by the number of turns, for the rest.
void llama3_rope_divisors(const llama3_rope *r, double theta, int64_t head_dim, float *out);

// Recovers the scaling from its divisors. They do not determine a common scale of original_context
// and the two frequency factors, so `context_hint` (tokens; 0: none) or else low_freq_factor 1
// decides. False: no llama3 scaling has these divisors.
bool llama3_rope_recover(const float *divs, double theta, int64_t head_dim, int64_t context_hint,
        llama3_rope *out);
