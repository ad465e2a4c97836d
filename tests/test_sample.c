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

// Draws often enough to tell the frequencies from other ones.
static void check_frequencies(arena *a, const sample_case *drawn) {
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

TEST(frequencies) {
    const sample_case cases[] = {
            {"all", {1, 1, 0, 1, 0}, {0.4, 0.3, 0.15, 0.1, 0.05, 0}, {0}, 0},
            {"half the temperature: squares", {0.5, 1, 0, 1, 0},
                    {0.5614, 0.3158, 0.0789, 0.0351, 0.0088, 0}, {0}, 0},
            {"top 2", {1, 1, 2, 1, 0}, {4.0 / 7, 3.0 / 7, 0, 0, 0, 0}, {0}, 0},
            {"top k beyond the vocabulary", {1, 1, 99, 1, 0}, {0.4, 0.3, 0.15, 0.1, 0.05, 0}, {0},
                    0},
            {"top p 0.8 takes the one that crosses it", {1, 0.8, 0, 1, 0},
                    {0.4706, 0.3529, 0.1765, 0, 0, 0}, {0}, 0},
            {"top p of what top k leaves", {1, 0.5, 2, 1, 0}, {1, 0, 0, 0, 0, 0}, {0}, 0},
            // 0.4^2 : 0.3 : 0.15 : 0.1 : 0.05, once although token 0 has occurred twice.
            {"penalty 2", {1, 1, 0, 2, 0}, {0.2105, 0.3947, 0.1974, 0.1316, 0.0658, 0}, {0, 0}, 2},
            {"min p 0.3 of the likeliest", {1, 1, 0, 1, 0.3}, {0.4706, 0.3529, 0.1765, 0, 0, 0},
                    {0}, 0},
            {"min p 1", {1, 1, 0, 1, 1}, {1, 0, 0, 0, 0, 0}, {0}, 0},
            {"greedy", {0, 1, 0, 1, 0}, {1, 0, 0, 0, 0, 0}, {0}, 0},
            {"greedy with a penalty", {0, 1, 0, 2, 0}, {0, 1, 0, 0, 0, 0}, {0}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_frequencies(a, &cases[i]);
}

// What transformers 5.23.0 leaves of the same logits (tools/golden_sample.py). Its greatest
// probability decides which tokens min p takes, after top p.
TEST(as_transformers) {
    const struct {
        sample_opts opts;
        double want[N];
        int32_t seen[2];
    } transformers_has[] = {
            {{0.7, 1, 2, 1, 0.2}, {0.6013, 0.3987, 0.0000, 0.0000, 0.0000, 0.0000}, {3, 3}},
            {{1.5, 1, 0, 1, 0}, {0.3342, 0.2759, 0.1738, 0.1326, 0.0835, 0.0000}, {3, 3}},
            {{0.5, 0.9, 2, 1.5, 0.05}, {0.4156, 0.5844, 0.0000, 0.0000, 0.0000, 0.0000}, {4, 0}},
            {{1, 1, 0, 1, 0.4}, {0.5714, 0.4286, 0.0000, 0.0000, 0.0000, 0.0000}, {0, 3}},
            {{0.7, 0.9, 0, 1.5, 0.05}, {0.5237, 0.3472, 0.1290, 0.0000, 0.0000, 0.0000}, {3, 3}},
            {{0.7, 0.6, 0, 1.5, 0.05}, {0.6013, 0.3987, 0.0000, 0.0000, 0.0000, 0.0000}, {3, 2}},
            {{0.5, 0.9, 4, 1.5, 0}, {0.8556, 0.1444, 0.0000, 0.0000, 0.0000, 0.0000}, {1, 2}},
            {{0.5, 0.6, 4, 1, 0.4}, {0.6400, 0.3600, 0.0000, 0.0000, 0.0000, 0.0000}, {1, 2}},
            {{1, 0.9, 4, 1, 0.4}, {0.5714, 0.4286, 0.0000, 0.0000, 0.0000, 0.0000}, {0, 3}},
            {{0.7, 0.9, 3, 1.5, 0.05}, {0.6013, 0.3987, 0.0000, 0.0000, 0.0000, 0.0000}, {2, 4}},
    };
    for (size_t i = 0; i < sizeof transformers_has / sizeof *transformers_has; i++) {
        sample_case drawn = {arena_printf(a, "drawn case %zu", i), transformers_has[i].opts, {0},
                {0}, 2};
        memcpy(drawn.want, transformers_has[i].want, sizeof drawn.want);
        memcpy(drawn.seen, transformers_has[i].seen, sizeof drawn.seen);
        check_frequencies(a, &drawn);
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
