// Several layouts of one model on local devices of a PJRT plugin against one device, and pairs that
// two of them share. Skipped, saying so, where there is no plugin.
#include "device_run.h"

// Each compiles programs of its own, which is most of the time: a layout is here for what no other
// one has. (Data ranks share the optimizer, ZeRO-1, unless another level is asked for.)
typedef struct layout_case {
    int ranks, n_sets;
    bool tied;
    const char *sets[4];
} layout_case;
static const layout_case cases[] = {{8, 1, false, {"parallel.zero=0"}},
        {8, 2, false, {"parallel.accumulation_groups=8", "training.recompute=full"}},
        {4, 2, false, {"parallel.tensor=4", "parallel.sequence=false"}},
        {4, 2, false, {"parallel.tensor=4", "training.recompute=selective"}},
        {8, 2, false, {"parallel.tensor=2", "parallel.zero=1"}},
        {8, 2, false, {"parallel.context=4", "parallel.zero=1"}},
        {4, 1, false, {"parallel.zero=2"}},
        {4, 2, false, {"parallel.context=2", "parallel.zero=2"}},
        {4, 1, false, {"parallel.zero=3"}},
        {8, 3, false, {"parallel.context=2", "parallel.zero=3", "parallel.zero_group=2"}},
        {8, 3, true, {"parallel.context=2", "parallel.zero=3", "model.tie_word_embeddings=true"}},
        {8, 2, false, {"parallel.context=2", "parallel.tensor=4"}},
        {8, 4, true,
                {"parallel.tensor=2", "parallel.zero=0", "parallel.sequence=false",
                        "model.tie_word_embeddings=true"}}};

static void expect_shared_pairs(device_pool *pool) {
    static const char *const pairs[] = {"training.objective=dpo", "parallel.context=2"};
    device_run one = run_devices(pool, 1, pairs, 1), two = run_devices(pool, 2, pairs, 2);
    expect_run(&two, &one);
    clear(&one);
    clear(&two);
}

static void every_layout(void **state) {
    static const char *const tie[] = {"model.tie_word_embeddings=true"};
    device_run alone[] = {run_devices(*state, 1, NULL, 0), run_devices(*state, 1, tie, 1)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const layout_case *c = &cases[i];
        device_run several = run_devices(*state, c->ranks, c->sets, c->n_sets);
        print_message("%d ranks, %s %s\n", c->ranks, c->sets[0], c->sets[1] ? c->sets[1] : "");
        expect_run(&several, &alone[c->tied]);
        clear(&several);
    }
    clear(&alone[0]);
    clear(&alone[1]);
    expect_shared_pairs(*state);
}

int main(void) {
    return run_on_pool(DEVICES, "every_layout", every_layout);
}
