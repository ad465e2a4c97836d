// What travels during programs (parallel.overlap, docs/adr/0027) changes neither bits nor bytes:
// the same steps with and without it, and as one rank.
#include "layout_run.h"

enum { MAX_KEYS = 8 };
#define N_OF(list) (sizeof(list) / sizeof *(list))

typedef struct overlap_case {
    int ranks;
    const char *sets[MAX_KEYS]; // besides those of its group
} overlap_case;

static layout_run run_sets(int ranks, const char *const *sets, const char *const *more,
        const char *overlap) {
    const char *all[MAX_SETS];
    int n = 0;
    for (; sets[n]; n++)
        all[n] = sets[n];
    for (int i = 0; more && i < MAX_KEYS && more[i]; i++)
        all[n++] = more[i];
    if (overlap) all[n++] = overlap;
    return train_layout(ranks, all, n);
}

static void expect_as_planned(const layout_run *r) {
    for (int axis = 0; axis < N_AXES; axis++) {
        if (axis == AXIS_PIPELINE) continue;
        // Context ranks send sums of gradients along both axes together.
        if (fabs((double)r->sent[axis] - r->planned[axis]) > 1e-9 * r->planned[axis] + 0.5)
            fail_msg("%d ranks, %s, axis %d: %lld bytes sent, %.17g planned", r->ranks,
                    r->sets[r->n_sets - 2], axis, (long long)r->sent[axis], r->planned[axis]);
    }
}

// As `one` has it; NULL: with and without alone.
static void same_bits(const char *const *sets, const overlap_case *c, const layout_run *one) {
    print_message("%d ranks, %s %s %s\n", c->ranks, sets[0], c->sets[0],
            c->sets[1] ? c->sets[1] : "");
    layout_run without = run_sets(c->ranks, sets, c->sets, "parallel.overlap=false"),
               with = run_sets(c->ranks, sets, c->sets, NULL);
    expect_same_bits(&with, &without);
    if (one) expect_same_bits(&with, one);
    expect_as_planned(&without);
    expect_as_planned(&with);
    free(without.weights);
    free(with.weights);
}

static void same_bits_as_one(const char *const *sets, const overlap_case *cases, size_t n_cases) {
    layout_run one = run_sets(1, sets, NULL, NULL);
    for (size_t i = 0; i < n_cases; i++)
        same_bits(sets, &cases[i], &one);
    free(one.weights);
}

// Four micro-batches a rank; tied tables, which two stages of a pipeline have.
static void in_fp32(void **state) {
    (void)state;
    static const char *const sets[] = {"parallel.accumulation_groups=2", "training.precision=fp32",
            "model.tie_word_embeddings=true", NULL};
    static const overlap_case cases[] = {{2, {"parallel.zero=0"}}, {2, {"parallel.zero=1"}},
            {2, {"parallel.zero=2"}}, {4, {"parallel.zero=1", "parallel.tensor=2"}},
            {4, {"parallel.zero=0", "parallel.tensor=2", "parallel.sequence=false"}},
            {4, {"parallel.zero=1", "parallel.pipeline=2"}},
            {4, {"parallel.zero=1", "parallel.pipeline=2", "parallel.schedule=gpipe"}},
            {4, {"parallel.zero=2", "parallel.pipeline=2", "parallel.schedule=1f1b"}},
            {4, {"parallel.zero=0", "parallel.pipeline=2", "parallel.schedule=zb-h1"}}};
    same_bits_as_one(sets, cases, N_OF(cases));
}

static void in_bf16(void **state) {
    (void)state;
    static const char *const sets[] = {"parallel.accumulation_groups=2", "training.precision=bf16",
            "model.tie_word_embeddings=false", "training.recompute=full", "data.sequence_length=24",
            NULL};
    static const overlap_case cases[] = {{2, {"parallel.zero=0"}}, {2, {"parallel.zero=1"}},
            {4, {"parallel.zero=0", "parallel.pipeline=2", "parallel.schedule=gpipe"}},
            {4, {"parallel.zero=1", "parallel.pipeline=2", "parallel.schedule=zb-h1"}},
            {8, {"parallel.zero=1", "parallel.pipeline=2", "parallel.schedule=interleaved",
                        "parallel.virtual_stages=2", "parallel.tensor=2"}}};
    same_bits_as_one(sets, cases, N_OF(cases));
}

// The first micro-batch of a rank is its last one; and several accumulation groups a rank, which
// are joined before anything travels.
static void many_accum_groups(void **state) {
    (void)state;
    static const char *const sets[] = {"parallel.accumulation_groups=8", "data.sequence_length=24",
            NULL};
    static const overlap_case cases[] = {{8, {"parallel.zero=0"}}, {8, {"parallel.zero=1"}},
            {4, {"parallel.zero=1"}}, {2, {"parallel.zero=0"}}};
    same_bits_as_one(sets, cases, N_OF(cases));
}

// Shards of other lengths, a tree that is not full.
static void three_ranks(void **state) {
    (void)state;
    static const char *const sets[] = {"parallel.accumulation_groups=3",
            "training.global_batch_size=12", "training.precision=bf16",
            "model.tie_word_embeddings=false", NULL};
    static const overlap_case cases[] = {{3, {"parallel.zero=0"}}, {3, {"parallel.zero=1"}}};
    same_bits_as_one(sets, cases, N_OF(cases));
}

// Reduction blocks of the row: one a rank, whose sums travel with those of data ranks, or several.
static void context_ranks(void **state) {
    (void)state;
    static const char *const sets[] = {"parallel.context_blocks=4",
            "parallel.accumulation_groups=2", NULL};
    static const overlap_case cases[] = {{4, {"parallel.zero=1", "parallel.context=2"}},
            {4, {"parallel.zero=0", "parallel.context=2"}},
            {8, {"parallel.zero=0", "parallel.context=4"}},
            {8, {"parallel.zero=1", "parallel.context=4"}},
            {8, {"parallel.zero=1", "parallel.context=2", "parallel.pipeline=2"}},
            {8, {"parallel.zero=0", "parallel.context=4", "parallel.tensor=2"}}};
    same_bits_as_one(sets, cases, N_OF(cases));
}

// Branches alone have gradients. The first stage has none.
static void low_rank_branches(void **state) {
    (void)state;
    static const char *const sets[] = {"lora.rank=4", "lora.dropout=0.1",
            "parallel.accumulation_groups=2", "lora.target_modules=.*layers\\.(2|3)\\..*proj",
            "training.precision=bf16", NULL};
    static const overlap_case cases[] = {{4, {"parallel.zero=1", "parallel.tensor=2"}},
            {4, {"parallel.zero=0", "parallel.pipeline=2", "parallel.schedule=zb-h1"}}};
    same_bits_as_one(sets, cases, N_OF(cases));
}

// The second stage has a backward pass and nothing to sum.
static void branches_before(void **state) {
    (void)state;
    static const char *const sets[] = {"lora.rank=4", "parallel.accumulation_groups=2",
            "lora.target_modules=.*layers\\.(0|1)\\..*proj", "parallel.pipeline=2", NULL};
    static const overlap_case cases[] = {{4, {"parallel.zero=1"}}, {4, {"parallel.zero=2"}},
            {4, {"parallel.zero=0", "parallel.schedule=zb-h1"}},
            {4, {"parallel.zero=1", "training.grad_dtype=bf16", "training.precision=bf16"}}};
    for (size_t i = 0; i < N_OF(cases); i++)
        same_bits(sets, &cases[i], NULL);
}

// Sums in bf16: what a rank adds is rounded before they travel.
static void rounded_gradients(void **state) {
    (void)state;
    static const char *const sets[] = {"training.grad_dtype=bf16", "training.precision=bf16",
            "training.micro_batch_size=2", NULL};
    static const overlap_case cases[] = {{2, {"parallel.zero=0"}},
            {3, {"parallel.zero=1", "training.global_batch_size=12"}},
            {4, {"parallel.zero=1", "parallel.pipeline=2", "parallel.schedule=zb-h1"}}};
    for (size_t i = 0; i < N_OF(cases); i++)
        same_bits(sets, &cases[i], NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_fp32), cmocka_unit_test(in_bf16),
            cmocka_unit_test(many_accum_groups), cmocka_unit_test(three_ranks),
            cmocka_unit_test(context_ranks), cmocka_unit_test(low_rank_branches),
            cmocka_unit_test(branches_before), cmocka_unit_test(rounded_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
