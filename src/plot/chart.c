// The keys of drawings and their titles.
#include "plot/chart.h"

#include <string.h>

#include "base/str.h"

int plot_key(const plot *p, const char *key) {
    return str_index(key, p->keys, p->n_keys);
}

const char *plot_title(const char *key) {
    static const char *const names[][2] = {{"lr", "learning rate"}, {"grad_norm", "gradient norm"},
            {"param_norm", "norm of the parameters"}, {"tokens_per_s", "tokens per second"},
            {"throughput", "sequences per second"}, {"mfu", "share of the GEMM peak"},
            {"val_loss", "validation loss"}, {"step_s", "seconds per step"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(key, names[i][0]) == 0) return names[i][1];
    return key;
}
