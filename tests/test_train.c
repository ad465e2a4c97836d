// Properties of a step: bits that must not depend on threads or recomputation, sums that must not
// depend on micro-batches, documents that must not see each other, the first loss of a fresh model.
#include "harness.h"

#include <math.h>

#include "base/cpu.h"
#include "ir/hyper.h"

static float *gradients_after_step(const char *extra, const char *type, int64_t *n, double *loss) {
    const char *sets[] = {"model.preset=tiny", "data.sequence_length=100",
            "training.micro_batch_size=3", "training.global_batch_size=3", type, extra};
    test_run *r = test_run_open(sets, 6);
    test_run_batch(r, 5, 37);
    *loss = test_run_step(r, 1.0 / 300);
    float *g = test_run_state(r, "grad.", n);
    test_run_close(r);
    return g;
}

static void same_bits(const char *extra, const char *type) {
    int64_t n, m;
    double loss, other;
    float *want = gradients_after_step("training.recompute=none", type, &n, &loss);
    float *got = gradients_after_step(extra, type, &m, &other);
    assert_true(n == m && loss == other);
    assert_memory_equal(want, got, sizeof *got * (size_t)n);
    double size = 0;
    for (int64_t i = 0; i < n; i++)
        size += fabs((double)want[i]);
    assert_true(size > 1 && isfinite(size));
    free(want);
    free(got);
}

TEST(recompute) {
    same_bits("training.recompute=selective", "training.precision=bf16");
    same_bits("training.recompute=full", "training.precision=bf16");
    same_bits("training.recompute=selective", "training.precision=fp32");
    same_bits("training.recompute=full", "training.precision=fp32");
}

TEST(threads) {
    const int counts[] = {1, 2, 4, 3};
    float *first = NULL;
    int64_t n = 0;
    double loss = 0;
    for (int i = 0; i < 4; i++) {
        int64_t m;
        double l;
        par_set_threads(counts[i]);
        float *g = gradients_after_step("training.seed=1234", "training.precision=bf16", &m, &l);
        if (i == 0) {
            first = g;
            n = m;
            loss = l;
            continue;
        }
        assert_true(l == loss);
        assert_memory_equal(first, g, sizeof *g * (size_t)n);
        free(g);
    }
    free(first);
    par_set_threads(2);
}

// The logits of the second document, to the bit, whatever stands in the first.
TEST(documents_are_apart) {
    for (int n_threads = 0; n_threads < 2; n_threads++) {
        const char *sets[] = {"model.preset=tiny", "data.sequence_length=90",
                n_threads ? "training.precision=bf16" : "training.precision=fp32"};
        test_run *run = test_run_open(sets, 3);
        llama_opts opts = {.rows = 1, .seq = 90, .dt = run->p.held.dt};
        executable *step;
        OK(backend_compile(run->a, run->p.held.b,
                llama_build(run->a, &run->p.held.params, LLAMA_LOGITS, &opts), NULL, &step));
        const int64_t row = 512 * dtype_bytes(run->p.held.dt), bytes = 90 * row;
        char *logits[2];
        int32_t tokens[90], position[90];
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < 90; i++) {
                tokens[i] = (i * 7 + (i < 40 ? 13 * k : 0)) % 512;
                position[i] = i < 40 ? i : i - 40;
            }
            OK(backend_write(run->p.held.b, "tokens", 0, sizeof tokens, tokens));
            OK(backend_write(run->p.held.b, "position", 0, sizeof position, position));
            OK(backend_run(run->p.held.b, step));
            logits[k] = mem_alloc((size_t)bytes);
            OK(backend_read(run->p.held.b, "logits", 0, bytes, logits[k]));
        }
        assert_true(memcmp(logits[0], logits[1], (size_t)(40 * row)) != 0);
        assert_memory_equal(logits[0] + 40 * row, logits[1] + 40 * row, (size_t)(50 * row));
        free(logits[0]);
        free(logits[1]);
        test_run_close(run);
    }
}

TEST(micro_batches_add_up) {
    const char *big[] = {"model.preset=tiny", "data.sequence_length=64",
            "training.micro_batch_size=4", "training.global_batch_size=4",
            "training.precision=fp32"};
    const char *small[] = {"model.preset=tiny", "data.sequence_length=64",
            "training.micro_batch_size=1", "training.global_batch_size=4",
            "training.precision=fp32"};
    test_run *first = test_run_open(big, 5), *second = test_run_open(small, 5);
    test_run_batch(first, 3, 50);
    const double whole = test_run_step(first, 1.0 / 200);
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"tokens", "labels", "position"};
        for (int k = 0; k < 3; k++) {
            int32_t x[64];
            OK(backend_read(first->p.held.b, names[k], 256 * i, 256, x));
            OK(backend_write(second->p.held.b, names[k], 0, 256, x));
        }
        sum += test_run_step(second, 1.0 / 200);
    }
    assert_true(sum == whole);
    int64_t n, m;
    float *ga = test_run_state(first, "grad.", &n), *gb = test_run_state(second, "grad.", &m);
    assert_int_equal(n, m);
    assert_memory_equal(ga, gb, sizeof *ga * (size_t)n);
    free(ga), free(gb);
    test_run_close(first);
    test_run_close(second);
}

// ln V + sigma^2 H / 2: an untied head of standard deviation sigma on normalised input.
TEST(first_loss) {
    const char *sets[] = {"model.preset=llama-15m", "model.tie_word_embeddings=false",
            "model.num_hidden_layers=2", "data.sequence_length=512"};
    test_run *r = test_run_open(sets, 4);
    test_run_batch(r, 8, 512);
    const double loss = test_run_step(r, 0) / 511, want = log(32000) + 0.02 * 0.02 * 288 / 2;
    if (!(fabs(loss - want) <= 0.01 * want)) fail_msg("first loss %.4f, expected %.4f", loss, want);
    test_run_close(r);
}

TEST(nan_is_skipped) {
    const char *sets[] = {"model.preset=tiny", "data.sequence_length=32",
            "training.precision=bf16"};
    test_run *r = test_run_open(sets, 3);
    backend *b = r->p.held.b;
    test_run_batch(r, 1, 32);
    test_run_step(r, (double)NAN);
    int64_t n;
    float *before = test_run_state(r, "", &n);
    const double hyper[N_HYPER] = {0.1, 0.1, 0.05, 1, 1};
    OK(backend_write(b, "hyper", 0, sizeof hyper, hyper));
    OK(backend_run(b, r->p.update));
    float *after = test_run_state(r, "", &n), *grads = test_run_state(r, "grad.", &n);
    assert_memory_equal(before, after, sizeof *after * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        assert_true(grads[i] == 0);
    free(before), free(after), free(grads);
    test_run_close(r);
}

// Every level of kernels trains alike; bf16 GEMMs too when they are computed in fp32, or as by AMX.
TEST(levels_agree) {
    double losses[7];
    int n = 0;
    for (int l = CPU_REF; l <= (int)cpu_detect(); l++) {
        setenv("DROVER_CPU", cpu_level_name((cpu_level)l), 1);
        int64_t m;
        free(gradients_after_step("training.seed=1", "training.precision=bf16", &m, &losses[n++]));
    }
    unsetenv("DROVER_CPU");
    static const char *const arithmetics[] = {"fp32", "amx_emulated"};
    for (int i = 0; i < 2; i++) {
        int64_t m;
        setenv("DROVER_GEMM", arithmetics[i], 1);
        free(gradients_after_step("training.seed=1", "training.precision=bf16", &m, &losses[n++]));
    }
    unsetenv("DROVER_GEMM");
    for (int i = 1; i < n; i++)
        assert_true(fabs(losses[i] - losses[0]) <= 2e-3 * losses[0]);
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
