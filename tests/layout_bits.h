// Runs on several ranks that must have the bits of one rank.
#pragma once
#include "layout_run.h"

typedef struct bits_case {
    int tensor, context, data, pipeline;
    const char *sets[3];
} bits_case;

#define SHARED "parallel.sequence=true"
#define WHOLE  "parallel.sequence=false"
#define ZERO0  "parallel.zero=0"
#define ZERO1  "parallel.zero=1"

static const bits_case alone = {1, 1, 1, 1, {ZERO1}};

static inline layout_run run_case(const bits_case *c, const char *const *sets, int n_sets) {
    const char *all[MAX_SETS];
    char degree[64], context[64], pipeline[64];
    int n = 0;
    all[n++] = "training.global_batch_size=4"; // two accumulation groups of two micro-batches
    for (int i = 0; i < n_sets; i++)
        all[n++] = sets[i];
    snprintf(degree, sizeof degree, "parallel.tensor=%d", c->tensor);
    snprintf(context, sizeof context, "parallel.context=%d", c->context);
    snprintf(pipeline, sizeof pipeline, "parallel.pipeline=%d", c->pipeline);
    all[n++] = degree;
    all[n++] = context;
    all[n++] = pipeline;
    all[n++] = "parallel.accumulation_groups=2";
    for (int i = 0; i < 3 && c->sets[i]; i++)
        all[n++] = c->sets[i];
    print_message("tensor %d, context %d, data %d, pipeline %d, %s; %s, %s\n", c->tensor,
            c->context, c->data, c->pipeline, c->sets[0] ? c->sets[0] : "", sets[0], sets[1]);
    return train_layout(c->tensor * c->context * c->data * c->pipeline, all, n);
}

static inline void same_bits_on(const bits_case *cases, size_t n_cases, const char *const *sets,
        int n_sets) {
    layout_run one = run_case(&alone, sets, n_sets);
    for (size_t i = 0; i < n_cases; i++) {
        layout_run several = run_case(&cases[i], sets, n_sets);
        expect_same_bits(&several, &one);
        free(several.weights);
    }
    free(one.weights);
}
