// Draws the next token from logits.
#include "infer/sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/elementary.h"

struct sampler {
    sample_opts opts;
    int64_t n_vocab;
    float *sorted;          // n_vocab
    unsigned char *penalty; // n_vocab flags: the penalty was applied; all 0 between calls
};

sampler *sampler_new(arena *a, const sample_opts *opts, int64_t n_vocab) {
    sampler *s = ARENA_NEW(a, sampler);
    *s = (sampler){.opts = *opts,
            .n_vocab = n_vocab,
            .sorted = ARENA_ARRAY(a, float, n_vocab),
            .penalty = ARENA_ARRAY(a, unsigned char, n_vocab)};
    return s;
}

// Applies the penalty of arXiv:1909.05858 once to each id that has occurred: multiplies negative
// logits and divides others, as transformers' RepetitionPenaltyLogitsProcessor does.
static void penalise(sampler *s, float *logits, const int32_t *seen, int64_t n_seen) {
    const float penalty = (float)s->opts.repetition_penalty;
    if (penalty == 1) return;
    for (int64_t i = 0; i < n_seen; i++) {
        float *logit = &logits[seen[i]];
        if (s->penalty[seen[i]]) continue;
        s->penalty[seen[i]] = 1;
        *logit = *logit < 0 ? *logit * penalty : *logit / penalty;
    }
    for (int64_t i = 0; i < n_seen; i++)
        s->penalty[seen[i]] = 0;
}

static void sift_down(float *heap, int64_t n, int64_t i) {
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[i] <= heap[child]) return;
        const float value = heap[i];
        heap[i] = heap[child];
        heap[child] = value;
    }
}

// Returns the k-th largest logit, by a heap of the k largest so far; equal ones are kept as well.
static float smallest_kept(sampler *s, const float *logits) {
    const int64_t k = s->opts.top_k;
    if (k == 0 || k >= s->n_vocab) return -INFINITY;
    memcpy(s->sorted, logits, sizeof *logits * (size_t)k);
    for (int64_t i = k / 2; i-- > 0;)
        sift_down(s->sorted, k, i);
    for (int64_t i = k; i < s->n_vocab; i++)
        if (logits[i] > s->sorted[0]) {
            s->sorted[0] = logits[i];
            sift_down(s->sorted, k, 0);
        }
    return s->sorted[0];
}

static int by_size(const void *x, const void *y) {
    const float a = *(const float *)x, b = *(const float *)y;
    return a > b ? -1 : a < b;
}

// Returns the smallest weight among the most likely tokens that together reach top_p.
static double smallest_weight(sampler *s, const float *weights, double total) {
    if (s->opts.top_p >= 1) return 0;
    // The tokens below the cut add up to at most 1 - top_p, so they need not be sorted.
    const double cut = (1 - s->opts.top_p) * total / (double)s->n_vocab;
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_vocab; i++)
        if ((double)weights[i] >= cut) s->sorted[n++] = weights[i];
    qsort(s->sorted, (size_t)n, sizeof *s->sorted, by_size);
    double kept = 0, least = 0;
    for (int64_t i = 0; i < n && kept < s->opts.top_p * total; i++) {
        kept += (double)s->sorted[i];
        least = (double)s->sorted[i];
    }
    return least;
}

int32_t sampler_draw(sampler *self, float *logits, const int32_t *seen, int64_t n_seen,
        const rng_key *key, uint64_t index) {
    penalise(self, logits, seen, n_seen);
    int64_t best = 0;
    bool nan = false;
    for (int64_t i = 0; i < self->n_vocab; i++) {
        if (logits[i] > logits[best]) best = i;
        nan |= isnan(logits[i]);
    }
    if (nan || isinf(logits[best])) return -1;
    if (self->opts.temperature <= 0) return (int32_t)best;
    const float kept = smallest_kept(self, logits);
    const double top = (double)logits[best];
    double total = 0;
    for (int64_t i = 0; i < self->n_vocab; i++) {
        const double x = ((double)logits[i] - top) / self->opts.temperature;
        // exp(-50) is 2e-22, too small to change a sum in double.
        logits[i] = logits[i] < kept || x < -50 ? 0 : (float)drv_exp(x);
        total += (double)logits[i];
    }
    // The greatest weight is 1, and stays whatever top p takes.
    const double least = fmax(smallest_weight(self, logits, total), self->opts.min_p);
    total = 0;
    for (int64_t i = 0; i < self->n_vocab; i++)
        if ((double)logits[i] >= least) total += (double)logits[i];
    double x = rng_uniform(key, index) * total;
    int64_t last = best;
    for (int64_t i = 0; i < self->n_vocab; i++) {
        if ((double)logits[i] < least || logits[i] <= 0) continue;
        last = i;
        x -= (double)logits[i];
        if (x < 0) break;
    }
    return (int32_t)last;
}
