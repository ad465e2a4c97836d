// Reads the rows of a step by the data sets of a run.
#include "train/step_rows.h"

#include <stdlib.h>

#include "base/str.h"
#include "train/run_inputs.h"

static drv_status add_names(const run_config *cfg, rows *train, int64_t step, str *out) {
    enum { MOST = 16 };
    const int64_t all = cfg->global_batch_size, n = all < MOST ? all : MOST;
    int32_t *row = mem_alloc(sizeof *row * 3 * (size_t)cfg->sequence_length);
    int64_t counted = 0;
    drv_status status = DRV_OK;
    rows_skip(train, (step - 1) * all);
    for (int64_t i = 0; i < n && status == DRV_OK; i++) {
        status = rows_next(train, row, row + cfg->sequence_length, row + 2 * cfg->sequence_length,
                &counted);
        if (status == DRV_OK) str_printf(out, "%s%s", i ? ", " : "", rows_last(train));
    }
    if (n < all) str_puts(out, ", ...");
    free(row);
    return status;
}

const char *step_rows_names(arena *a, const run_config *cfg, int64_t step) {
    run_config alone = *cfg;
    rows *train = NULL, *valid = NULL;
    str names = {0};
    const char *text = NULL;
    config_one_rank(&alone);
    drv_status status = run_inputs_open(a, &alone, false, &train, &valid);
    if (status == DRV_OK) status = add_names(&alone, train, step, &names);
    if (status == DRV_OK) text = arena_printf(a, "rows of step %lld: %s", (long long)step, names.p);
    if (train) rows_close(train);
    if (valid) rows_close(valid);
    str_free(&names);
    return text;
}
