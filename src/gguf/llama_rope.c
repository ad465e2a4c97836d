// Converts between llama3's rotary scaling and the divisors that GGUF stores.
#include "gguf/llama_rope.h"

#include <math.h>

#include "gguf/gguf.h"

// Returns the positions per turn of frequency i.
static double wavelength(double theta, int64_t head_dim, int64_t i) {
    return 2 * acos(-1) * pow(theta, 2.0 * (double)i / (double)head_dim);
}

// Returns the share of a frequency that is kept: 1 for short wavelengths, 0 for long ones.
static double kept(const llama3_rope *r, double wave) {
    const double turns = (double)r->original_context / wave;
    if (turns > r->high_freq_factor) return 1;
    if (turns < r->low_freq_factor) return 0;
    return (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
}

void llama3_rope_divisors(const llama3_rope *r, double theta, int64_t head_dim, float *out) {
    for (int64_t i = 0; i < head_dim / 2; i++) {
        const double share = kept(r, wavelength(theta, head_dim, i));
        out[i] = (float)(1 / ((1 - share) / r->factor + share));
    }
}

// --- recovering
typedef struct divisors {
    const float *p;
    int64_t n;
    double theta, largest;
} divisors;

// Returns whether a scaling gives the divisors, whose writers compute wavelengths in fp32.
static bool fits(const divisors *d, const llama3_rope *r) {
    enum { STACK = 1024 }; // frequencies
    float expected[STACK];
    if (d->n > STACK || r->original_context < 1 || !(r->low_freq_factor > 0) ||
            !(r->high_freq_factor > r->low_freq_factor))
        return false;
    llama3_rope_divisors(r, d->theta, 2 * d->n, expected);
    for (int64_t i = 0; i < d->n; i++)
        if (!(fabsf(expected[i] - d->p[i]) <= 3e-5f * expected[i])) return false;
    return true;
}

// Tries frequency factors 1 and 4, as in every release of Llama, and as context the hint, or
// without one each power of two.
static bool usual(const divisors *d, int64_t hint, llama3_rope *r) {
    *r = (llama3_rope){d->largest, 1, 4, hint > 0 ? hint : 8192};
    if (fits(d, r)) return true;
    if (hint > 0) return false;
    for (r->original_context = 1; r->original_context <= 1 << 24; r->original_context *= 2)
        if (fits(d, r)) return true;
    return false;
}

// Finds the first and last frequency between the limits, and their kept shares; returns how many.
static int between(const divisors *d, int64_t index[2], double share[2]) {
    int n = 0;
    for (int64_t i = 0; i < d->n; i++) {
        const double x = (double)d->p[i], keeps = (1 / x - 1 / d->largest) / (1 - 1 / d->largest);
        if (!(keeps > 1e-4 && keeps < 1 - 1e-4)) continue;
        const int k = n == 0 ? 0 : 1;
        index[k] = i;
        share[k] = keeps;
        n++;
    }
    return n;
}

// Solves kept = context / (wave * (high - low)) - low / (high - low), a line over 1 / wave, of
// which two points are known, or one and high = 4 * low.
static bool solve(const divisors *known, int64_t hint, llama3_rope *out) {
    int64_t index[2];
    double share[2], slope, offset;
    const int n_between = between(known, index, share);
    if (n_between == 0) return false;
    const double wave = wavelength(known->theta, 2 * known->n, index[0]);
    if (n_between == 1) {
        offset = 1.0 / 3;
        slope = (share[0] + offset) * wave;
    } else {
        const double last = wavelength(known->theta, 2 * known->n, index[1]);
        slope = (share[0] - share[1]) / (1 / wave - 1 / last);
        offset = slope / wave - share[0];
    }
    if (!(slope > 0 && offset > 0)) return false;
    for (int low = 1; low <= 16; low++) { // until the context is a whole number
        const double context = hint > 0 ? (double)hint : round(low * slope / offset);
        if (!(context >= 1 && context < 0x1p30)) return false;
        *out = (llama3_rope){known->largest, gguf_meant((float)(context * offset / slope)),
                gguf_meant((float)(context * (1 + offset) / slope)), (int64_t)context};
        if (fabs(out->low_freq_factor - round(out->low_freq_factor)) < 1e-3)
            out->low_freq_factor = round(out->low_freq_factor);
        if (fabs(out->high_freq_factor - round(out->high_freq_factor)) < 1e-3)
            out->high_freq_factor = round(out->high_freq_factor);
        if (fits(known, out)) return true;
    }
    return false;
}

// Tries contexts between the wavelength of the only frequency between the limits and the next one;
// for each the frequency gives the high factor.
static bool one_between(const divisors *d, llama3_rope *r) {
    enum { STEPS = 256 };
    int64_t index[2];
    double share[2];
    if (between(d, index, share) != 1) return false;
    const double wave = wavelength(d->theta, 2 * d->n, index[0]),
                 next = wavelength(d->theta, 2 * d->n, index[0] + 1);
    for (int i = 1; i <= STEPS; i++) {
        const double context = round(wave + (next - wave) * i / STEPS);
        const double high = 1 + (context / wave - 1) / share[0];
        *r = (llama3_rope){d->largest, 1, gguf_meant((float)high), (int64_t)context};
        if (fits(d, r)) return true;
    }
    return false;
}

// Tries contexts that separate the two kinds of frequencies, if none is between the limits.
static bool gap(const divisors *d, llama3_rope *r) {
    for (int64_t i = 0; i + 1 < d->n; i++) {
        const double context = wavelength(d->theta, 2 * d->n, i + 1);
        *r = (llama3_rope){d->largest, 1, 4, (int64_t)context};
        if (fits(d, r)) return true;
        r->high_freq_factor = 1 + 1e-3;
        if (fits(d, r)) return true;
    }
    return false;
}

bool llama3_rope_recover(const float *divs, double theta, int64_t head_dim, int64_t context_hint,
        llama3_rope *out) {
    divisors d = {.p = divs, .n = head_dim / 2, .theta = theta};
    float largest = 1, smallest = INFINITY;
    for (int64_t i = 0; i < d.n; i++) {
        largest = fmaxf(largest, divs[i]);
        smallest = fminf(smallest, divs[i]);
        if (!(divs[i] >= 0.999f && divs[i] <= 1e6f)) return false;
    }
    *out = (llama3_rope){0};
    if (largest == 1 && smallest == 1) return true;
    d.largest = gguf_meant(largest);
    if (context_hint > 0 && (usual(&d, context_hint, out) || solve(&d, context_hint, out)))
        return true;
    return usual(&d, 0, out) || solve(&d, 0, out) || one_between(&d, out) || gap(&d, out);
}
