// Learning from pairs on ranks of every kind gives the bits of one rank: losses, norms and weights,
// where prompt and responses of a pair lie on several context ranks too, and sends what is planned.
#include "layout_run.h"

typedef struct layout_case {
    int ranks;
    const char *sets[4];
    int n_sets;
} layout_case;

static layout_run run_case(const layout_case *c, const char *const *model, int n_model) {
    const char *all[16] = {"training.objective=dpo", "dpo.label_smoothing=0.1",
            "training.global_batch_size=4", "parallel.accumulation_groups=2",
            "parallel.context_blocks=2"};
    int n = 5;
    for (int i = 0; i < n_model; i++)
        all[n++] = model[i];
    for (int i = 0; i < c->n_sets; i++)
        all[n++] = c->sets[i];
    print_message("%d ranks, %s, %s\n", c->ranks, model[0], c->n_sets ? c->sets[0] : "");
    return train_layout(c->ranks, all, n);
}

static void expect_planned_traffic(const layout_run *r) {
    for (int axis = 0; axis < N_AXES; axis++)
        if (axis != AXIS_PIPELINE && (double)r->sent[axis] != r->planned[axis])
            fail_msg("%d ranks sent %lld bytes along axis %d, planned %.0f", r->ranks,
                    (long long)r->sent[axis], axis, r->planned[axis]);
}

static void same_bits(const char *const *model, int n_model, const layout_case *cases, int n) {
    const layout_case alone = {.ranks = 1};
    layout_run one = run_case(&alone, model, n_model);
    for (int i = 0; i < n; i++) {
        layout_run several = run_case(&cases[i], model, n_model);
        expect_same_bits(&several, &one);
        expect_planned_traffic(&several);
        free(several.weights);
    }
    free(one.weights);
}

TEST(ranks_of_every_kind) {
    const char *const model[] = {"training.precision=fp32", "model.vocab_size=509"};
    const layout_case cases[] = {{2, {"parallel.data=2"}, 1}, {2, {"parallel.context=2"}, 1},
            {2, {"parallel.tensor=2"}, 1}, {2, {"parallel.pipeline=2"}, 1},
            {2, {"parallel.pipeline=2", "parallel.schedule=zb-h1"}, 2},
            {8, {"parallel.tensor=2", "parallel.context=2", "parallel.pipeline=2"}, 3},
            {1, {"training.micro_batch_size=2", "training.recompute=full"}, 2},
            {2, {"parallel.context=2", "training.micro_batch_size=2"}, 2},
            {2, {"parallel.zero=2"}, 1}, {2, {"parallel.zero=3"}, 1},
            {2, {"parallel.zero=3", "parallel.zero_group=1"}, 2},
            {4,
                    {"parallel.zero=2", "parallel.pipeline=2", "parallel.schedule=interleaved",
                            "parallel.virtual_stages=2"},
                    4}};
    same_bits(model, 2, cases, sizeof cases / sizeof *cases);
}

// Across what is hidden from a rejected response, and over the ends of chunks of the row.
TEST(in_a_window) {
    const char *const model[] = {"training.precision=fp32", "model.sliding_window=4"};
    const layout_case cases[] = {{2, {"parallel.context=2"}, 1}};
    same_bits(model, 2, cases, 1);
}

// Reduction blocks of the row, which go around in the ring, are sums of other parts of the same
// numbers; also where the first token of a chunk, by its window, sees less of the row than later
// ones, with which a rejected response begins.
TEST(blocks_of_rows) {
    const char *const model[] = {"training.precision=fp32", "model.sliding_window=4"};
    for (int n = 1; n <= 2; n++) {
        const layout_case blocks = {.ranks = 1}, whole = {1, {"parallel.context_blocks=1"}, 1};
        layout_run cut = run_case(&blocks, model, n), one = run_case(&whole, model, n);
        expect_close_numbers(&cut, &one, 1e-6);
        free(cut.weights);
        free(one.weights);
    }
}

TEST(branches_in_bf16) {
    const char *const model[] = {"training.precision=bf16", "lora.rank=4", "lora.dropout=0.1"};
    const layout_case cases[] = {{4, {"parallel.context=2", "parallel.tensor=2"}, 2},
            {2, {"parallel.pipeline=2"}, 1}};
    same_bits(model, 3, cases, sizeof cases / sizeof *cases);
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
