// What the tests of shards share: runs with a level of ZeRO against one rank. The test defines
// ZERO, the level as a setting, before it includes this.
#pragma once
#include "layout_run.h"

typedef struct zero_case {
    int ranks;
    const char *sets[4]; // besides ZERO
} zero_case;

static inline layout_run run_sets(int ranks, const char *const *sets, const char *const *more) {
    const char *all[MAX_SETS];
    int n = 0;
    for (; sets[n]; n++)
        all[n] = sets[n];
    for (int i = 0; more && more[i]; i++)
        all[n++] = more[i];
    return train_layout(ranks, all, n);
}

static inline void same_bits_as_one(const char *const *sets, const zero_case *cases,
        size_t n_cases) {
    layout_run one = run_sets(1, sets, NULL);
    for (size_t i = 0; i < n_cases; i++) {
        const char *more[6] = {ZERO};
        for (int k = 0; k < 4 && cases[i].sets[k]; k++)
            more[k + 1] = cases[i].sets[k];
        print_message("%s, %d ranks, %s\n", sets[0], cases[i].ranks, more[1] ? more[1] : "");
        layout_run several = run_sets(cases[i].ranks, sets, more);
        expect_same_bits(&several, &one);
        free(several.weights);
    }
    free(one.weights);
}

#define N_OF(list) (sizeof(list) / sizeof *(list))
