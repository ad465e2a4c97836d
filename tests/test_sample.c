// Drawing tokens: frequencies against the probabilities that the options define.
#include <math.h>
#include <string.h>

#include "harness.h"
#include "infer/sample.h"

enum { N = 6, DRAWS = 20000, SEED = 7 };

// ln of 0.4, 0.3, 0.15, 0.1, 0.05; the last is impossible.
static const double share[N] = {0.4, 0.3, 0.15, 0.1, 0.05, 0};

static void fill(float *logits) {
    for (int i = 0; i < N; i++)
        logits[i] = share[i] > 0 ? (float)log(share[i]) : -INFINITY;
}

typedef struct sample_case {
    const char *name;
    sample_opts opts;
    double want[N];
    int32_t seen[2];
    int n_seen;
} sample_case;

TEST(frequencies) {
    const sample_case cases[] = {
            {"all", {1, 1, 0, 1}, {0.4, 0.3, 0.15, 0.1, 0.05, 0}, {0}, 0},
            {"half the temperature: squares", {0.5, 1, 0, 1},
                    {0.5614, 0.3158, 0.0789, 0.0351, 0.0088, 0}, {0}, 0},
            {"top 2", {1, 1, 2, 1}, {4.0 / 7, 3.0 / 7, 0, 0, 0, 0}, {0}, 0},
            {"top k beyond the vocabulary", {1, 1, 99, 1}, {0.4, 0.3, 0.15, 0.1, 0.05, 0}, {0}, 0},
            {"top p 0.8 takes the one that crosses it", {1, 0.8, 0, 1},
                    {0.4706, 0.3529, 0.1765, 0, 0, 0}, {0}, 0},
            {"top p of what top k leaves", {1, 0.5, 2, 1}, {1, 0, 0, 0, 0, 0}, {0}, 0},
            // 0.4^2 : 0.3 : 0.15 : 0.1 : 0.05, once although token 0 has occurred twice.
            {"penalty 2", {1, 1, 0, 2}, {0.2105, 0.3947, 0.1974, 0.1316, 0.0658, 0}, {0, 0}, 2},
            {"greedy", {0, 1, 0, 1}, {1, 0, 0, 0, 0, 0}, {0}, 0},
            {"greedy with a penalty", {0, 1, 0, 2}, {0, 1, 0, 0, 0, 0}, {0}, 1},
    };
    for (size_t of = 0; of < sizeof cases / sizeof *cases; of++) {
        const sample_case *drawn = &cases[of];
        sampler *s = sampler_new(a, &drawn->opts, N);
        int count[N] = {0};
        for (int i = 0; i < DRAWS; i++) {
            float logits[N];
            fill(logits);
            const rng_key key = {SEED, RNG_SAMPLE, (uint64_t)i};
            const int32_t id = sampler_draw(s, logits, drawn->seen, drawn->n_seen, &key, 0);
            assert_true(id >= 0 && id <= N - 1);
            count[id]++;
        }
        for (int i = 0; i < N; i++) {
            // Five standard deviations of a binomial, and the rounding of the values above.
            const double sigma = sqrt(drawn->want[i] * (1 - drawn->want[i]) / DRAWS);
            const double got = (double)count[i] / DRAWS;
            if (fabs(got - drawn->want[i]) > 5 * sigma + 1e-4)
                fail_msg("%s, seed %d: token %d %.4f of draws, expected %.4f", drawn->name, SEED, i,
                        got, drawn->want[i]);
        }
    }
}

TEST(a_positive_logit_is_divided) {
    sampler *s = sampler_new(a,
            &(sample_opts){.temperature = 0, .top_p = 1, .repetition_penalty = 2}, 2);
    float logits[] = {3, 2};
    const rng_key key = {SEED, RNG_SAMPLE, 0};
    assert_int_equal(sampler_draw(s, logits, (int32_t[]){0}, 1, &key, 0), 1); // 1.5 against 2
}

TEST(nan_is_refused) {
    sampler *s = sampler_new(a,
            &(sample_opts){.temperature = 1, .top_p = 1, .repetition_penalty = 1}, 2);
    float bad[][2] = {{1, NAN}, {NAN, 1}, {-INFINITY, -INFINITY}, {INFINITY, 1}};
    const rng_key key = {SEED, RNG_SAMPLE, 0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sampler_draw(s, bad[i], NULL, 0, &key, 0), -1);
}
