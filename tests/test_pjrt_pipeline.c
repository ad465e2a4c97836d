// Pipelines on local devices of a PJRT plugin, programs per device, in each schedule, against one
// device. The table of the vocabulary is used on both ends. Skipped, saying so, where there is no
// plugin.
#include "device_run.h"

typedef struct pipeline_case {
    int ranks;
    const char *sets[5];
} pipeline_case;
static const pipeline_case cases[] = {{2, {"parallel.schedule=zb-h1"}},
        {2, {"parallel.schedule=interleaved", "parallel.virtual_stages=2"}},
        {4, {"parallel.schedule=gpipe", "parallel.tensor=2"}},
        {8, {"parallel.schedule=1f1b", "parallel.tensor=2", "parallel.zero=1",
                    "parallel.lanes=4"}}};

enum { SHARED_SETS = 3 };
static device_run run_pipeline(device_pool *pool, const pipeline_case *c) {
    const char *sets[SHARED_SETS + 5] = {"model.tie_word_embeddings=true",
            "model.num_hidden_layers=4", "parallel.pipeline=2"};
    int n = c->ranks > 1 ? SHARED_SETS : SHARED_SETS - 1;
    for (int i = 0; i < 5 && c->sets[i]; i++)
        sets[n++] = c->sets[i];
    return run_devices(pool, c->ranks, sets, n);
}

static void every_schedule(void **state) {
    device_run one = run_pipeline(*state, &(pipeline_case){.ranks = 1});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("%d ranks, %s\n", cases[i].ranks, cases[i].sets[0]);
        device_run several = run_pipeline(*state, &cases[i]);
        expect_run(&several, &one);
        clear(&several);
    }
    clear(&one);
}

int main(void) {
    return run_on_pool(DEVICES, "every_schedule", every_schedule);
}
