// Training on a pipeline: every schedule, on any number of ranks, beside data ranks, gives the bits
// of one rank; beside tensor ranks, those of tensor ranks alone.
#include "layout_run.h"

#include <math.h>

#include "base/clock.h"

static const char *const schedules[] = {"parallel.schedule=gpipe", "parallel.schedule=1f1b",
        "parallel.schedule=interleaved", "parallel.schedule=zb-h1"};
enum { N_SCHEDULES = 4, INTERLEAVED = 2 };

typedef struct stages_case {
    const char *sets[6]; // of both runs
    int n_sets, pipeline, data, tensor;
} stages_case;

// On a mesh against the same without a pipeline.
static void compare(const stages_case *c, const layout_run *want, int schedule) {
    const bool twice = schedule == INTERLEAVED;
    const char *sets[MAX_SETS];
    char pipeline[64];
    int n = 0;
    for (; n < c->n_sets; n++)
        sets[n] = c->sets[n];
    snprintf(pipeline, sizeof pipeline, "parallel.pipeline=%d", c->pipeline);
    sets[n++] = pipeline;
    sets[n++] = schedules[schedule];
    sets[n++] = twice ? "parallel.virtual_stages=2" : "parallel.virtual_stages=1";
    print_message("%d ranks: pipeline %d, data %d, tensor %d, %s, %s\n",
            c->pipeline * c->data * c->tensor, c->pipeline, c->data, c->tensor, schedules[schedule],
            c->n_sets ? c->sets[0] : "");
    layout_run got = train_layout(c->pipeline * c->data * c->tensor, sets, n);
    expect_same_bits(&got, want);
    free(got.weights);
}

static void all_schedules(stages_case c, int first_pipeline, int last_pipeline) {
    layout_run want = train_layout(c.tensor, c.sets, c.n_sets);
    for (c.pipeline = first_pipeline; c.pipeline <= last_pipeline; c.pipeline *= 2)
        for (int schedule = 0; schedule < N_SCHEDULES; schedule++)
            if (schedule != INTERLEAVED || c.pipeline == 2) compare(&c, &want, schedule);
    free(want.weights);
}

TEST(a_pipeline_has_the_bits_of_one_rank) {
    static const stages_case cases[] = {{{"model.tie_word_embeddings=true",
                                                 "training.precision=bf16"},
                                                2, 0, 1, 1},
            {{"model.tie_word_embeddings=false", "training.precision=fp32"}, 2, 0, 1, 1},
            {{"model.tie_word_embeddings=true", "training.precision=bf16",
                     "training.recompute=full"},
                    3, 0, 1, 1},
            {{"model.tie_word_embeddings=false", "training.precision=bf16",
                     "training.recompute=selective"},
                    3, 0, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        all_schedules(cases[i], 2, 4);
}

// Two data ranks have one accumulation group each, or each several; one rank has them all.
TEST(beside_data_ranks) {
    static const stages_case cases[] = {{{"parallel.accumulation_groups=2",
                                                 "model.tie_word_embeddings=true"},
                                                2, 0, 2, 1},
            {{"parallel.accumulation_groups=4", "model.tie_word_embeddings=false"}, 2, 0, 2, 1},
            {{"parallel.accumulation_groups=8", "model.tie_word_embeddings=true"}, 2, 0, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        all_schedules(cases[i], 2, 2);
}

TEST(beside_tensor_ranks) {
    static const stages_case cases[] = {{{"parallel.tensor=2", "model.tie_word_embeddings=true"}, 2,
                                                0, 1, 2},
            {{"parallel.tensor=2", "parallel.sequence=false", "model.tie_word_embeddings=false"}, 3,
                    0, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        all_schedules(cases[i], 2, 2);
}
