// Training by the tiles of AMX, in plain C where the processor has none, keeps the promises of the
// other arithmetics: the same bits for any number of threads, any size of a micro-batch
// (docs/adr/0026) and any layout of ranks (docs/adr/0012), and other ones than fp32.
#include "layout_bits.h"

#include "backend/cpu/gemm.h"
#include "base/parallel.h"

#define BF16 "training.precision=bf16"

static void by_tiles(void) {
    setenv("DROVER_GEMM", gemm_amx(cpu_detect()) ? "amx" : "amx_emulated", 1);
}

static void other_bits_than_fp32(const layout_run *tiles, const char *const *sets, int n_sets) {
    setenv("DROVER_GEMM", "fp32", 1);
    layout_run wide = run_case(&alone, sets, n_sets);
    by_tiles();
    assert_memory_not_equal(wide.weights, tiles->weights,
            sizeof *wide.weights * (size_t)wide.n_weights);
    expect_close_numbers(&wide, tiles, 2e-3);
    free(wide.weights);
}

TEST(same_bits) {
    static const struct {
        const char *rows;
        int threads;
        bits_case on;
    } cases[] = {{"training.micro_batch_size=1", 3, {1, 1, 1, 1, {ZERO1}}},
            {"training.micro_batch_size=2", 2, {1, 1, 1, 1, {ZERO0}}},
            {"training.micro_batch_size=1", 2, {2, 1, 1, 1, {SHARED, ZERO1}}},
            {"training.micro_batch_size=2", 2, {2, 1, 2, 1, {WHOLE, ZERO1}}},
            {"training.micro_batch_size=1", 2, {1, 2, 1, 1, {ZERO1}}}};
    const char *sets[] = {BF16, "model.num_hidden_layers=1", "parallel.context_blocks=2",
            "model.vocab_size=96", "training.micro_batch_size=1"};
    par_set_threads(1);
    layout_run one = run_case(&alone, sets, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        par_set_threads(cases[i].threads);
        sets[4] = cases[i].rows;
        layout_run several = run_case(&cases[i].on, sets, 5);
        expect_same_bits(&several, &one);
        free(several.weights);
    }
    sets[4] = "training.micro_batch_size=1";
    other_bits_than_fp32(&one, sets, 5);
    free(one.weights);
}

int main(void) {
    by_tiles();
    return tests_run();
}
