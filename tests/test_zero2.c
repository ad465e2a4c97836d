// Shards of sums of gradients (ZeRO-2, docs/adr/0021): the bits of one rank and of ZeRO 0 and 1,
// the memory and the bytes on the wire that a plan says.
#define ZERO "parallel.zero=2"
#include "zero_run.h"

// A single accumulation group, as on one rank, and several, which ranks share however they divide.
TEST(accum_groups_on_any_ranks) {
    static const zero_case cases[] = {{2, {0}}, {4, {0}}, {8, {0}}};
    static const char *const accum_groups[] = {"parallel.accumulation_groups=auto",
            "parallel.accumulation_groups=2", "parallel.accumulation_groups=4",
            "parallel.accumulation_groups=8"};
    for (size_t i = 0; i < N_OF(accum_groups); i++) {
        const char *sets[] = {accum_groups[i],
                i % 2 ? "training.precision=fp32" : "training.precision=bf16", NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

// Three accumulation groups leave a tree that is not full, three ranks shards of other lengths, and
// accumulation groups that end while a rank's turn goes on.
TEST(what_does_not_divide) {
    static const zero_case cases[] = {{2, {0}}, {3, {0}}, {4, {0}}, {6, {0}}};
    static const char *const accum_groups[] = {"parallel.accumulation_groups=3",
            "parallel.accumulation_groups=4", "parallel.accumulation_groups=6"};
    for (size_t i = 0; i < N_OF(accum_groups); i++) {
        const char *sets[] = {accum_groups[i], "training.global_batch_size=12", NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

// Micro-batches of more tokens than a block of a product or a chunk of logits: whatever adds
// several times to a gradient adds up apart first.
TEST(large_micro_batches) {
    static const zero_case cases[] = {{2, {0}}};
    static const char *const precisions[] = {"training.precision=fp32", "training.precision=bf16"};
    for (size_t i = 0; i < N_OF(precisions); i++) {
        const char *sets[] = {precisions[i], "data.sequence_length=840",
                "training.micro_batch_size=2", "model.num_hidden_layers=1",
                "model.max_position_embeddings=1024", "parallel.accumulation_groups=1",
                "parallel.partial_sum_rows=2", NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

TEST(beside_other_axes) {
    static const zero_case cases[] = {{4, {"parallel.tensor=2"}},
            {4, {"parallel.tensor=2", "parallel.sequence=false"}}, {4, {"parallel.pipeline=2"}},
            {4, {"parallel.pipeline=2", "parallel.schedule=gpipe"}},
            {4, {"parallel.pipeline=2", "parallel.schedule=zb-h1"}},
            {8, {"parallel.pipeline=2", "parallel.schedule=interleaved",
                        "parallel.virtual_stages=2", "parallel.tensor=2"}}};
    static const char *const tied[] = {"model.tie_word_embeddings=true",
            "model.tie_word_embeddings=false"};
    for (int i = 0; i < 2; i++) {
        const char *sets[] = {tied[i], "parallel.accumulation_groups=2", "training.precision=bf16",
                NULL};
        same_bits_as_one(sets, cases, N_OF(cases));
    }
}

// Reduction blocks of the row: a sum for each, wherever they are.
TEST(beside_context_ranks) {
    static const zero_case cases[] = {{2, {"parallel.context=2"}}, {4, {"parallel.context=2"}},
            {4, {"parallel.context=4"}}, {2, {0}}, {8, {"parallel.context=4"}}};
    const char *sets[] = {"parallel.context_blocks=4", "parallel.accumulation_groups=2", NULL};
    same_bits_as_one(sets, cases, N_OF(cases));
}

TEST(low_rank_branches) {
    static const zero_case cases[] = {{2, {0}}, {4, {"parallel.tensor=2"}},
            {4, {"parallel.pipeline=2"}}};
    const char *sets[] = {"lora.rank=4", "lora.dropout=0.1", "parallel.accumulation_groups=1",
            NULL};
    same_bits_as_one(sets, cases, N_OF(cases));
}

// Recomputation and state in bf16 change nothing of it.
TEST(with_other_keys) {
    static const zero_case cases[] = {{2, {0}}, {4, {0}}};
    const char *sets[] = {"training.recompute=full", "optimizer.state_dtype=bf16",
            "optimizer.master_dtype=fp32", "training.precision=bf16",
            "parallel.accumulation_groups=1", NULL};
    same_bits_as_one(sets, cases, N_OF(cases));
}

// --- as planned
TEST(memory_and_wire) {
    static const struct {
        int ranks;
        const char *accum_groups;
        int64_t open; // sums that wait, of each element
    } cases[] = {{2, "parallel.accumulation_groups=auto", 1},
            {4, "parallel.accumulation_groups=auto", 1}, {2, "parallel.accumulation_groups=2", 2},
            {2, "parallel.accumulation_groups=4", 2}, {4, "parallel.accumulation_groups=4", 1},
            {8, "parallel.accumulation_groups=8", 1}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        const char *sets[] = {cases[i].accum_groups, "training.precision=fp32",
                "model.tie_word_embeddings=false", NULL},
                   *zero2[] = {ZERO, NULL};
        layout_run got = run_sets(cases[i].ranks, sets, zero2);
        const double planned = STEPS * cases[i].ranks * got.wire[AXIS_DATA];
        // Shards are multiples of 1,024 elements.
        enum { N_WEIGHTS = 4 * 6 + 3 };
        const double all = 4 * (double)got.n_weights, held = (double)got.gradient_bytes,
                     least = all * (double)cases[i].open / cases[i].ranks,
                     most = least + (double)(cases[i].open * N_WEIGHTS * 4 * 1023);
        if (held < least || held > most)
            fail_msg("case %zu: %g bytes of gradients, expected %g to %g", i, held, least, most);
        if (fabs((double)got.sent[AXIS_DATA] - planned) > 1e-9 * planned + 0.5)
            fail_msg("case %zu: %lld bytes sent, %g planned", i, (long long)got.sent[AXIS_DATA],
                    planned);
        free(got.weights);
    }
}

TEST(what_cannot_be_is_refused) {
    static const struct {
        const char *sets[2], *text;
    } cases[] = {{{"training.grad_dtype=bf16", NULL}, "expected zero 0 or 1, or grad_dtype fp32"},
            {{"backend=pjrt", "parallel.accumulation_groups=2"},
                    "\"parallel.accumulation_groups\" is 2, but with parallel.zero 2"}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        run_config cfg;
        programs p;
        const char *sets[] = {"model.preset=tiny", "parallel.data=2", ZERO, cases[i].sets[0],
                cases[i].sets[1]};
        OK(config_load(a, NULL, sets, cases[i].sets[1] ? 5 : 4, &cfg));
        FAILS(programs_build(a, &cfg, &p), DRV_E_USAGE, cases[i].text);
    }
    expect_refused("parallel.zero=4", "parallel.data=2", "expected");
    expect_refused("parallel.accumulation_groups=3", ZERO, "expected a divisor of the");
}
