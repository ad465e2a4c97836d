// Lists the rows of a step from the data sets of its run.
#include "train/step_rows.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "train/resume_elsewhere.h"
#include "train/run_inputs.h"
#include "train/set_counters.h"
#include "train/trainer_json.h"

// Seeks the rows to the position of the newest readable checkpoint before the step, since batch,
// row length or weights may have changed before it, and sets *done to its step. Without one the run
// began at step 0, or at the position of the run that it continues.
static void go_to_checkpoint(arena *a, const run_config *cfg, rows *train, int64_t step,
        int64_t *done) {
    const char *dir = path_join(a, cfg->run_dir, "checkpoints");
    char **names;
    int n;
    run_state begun;
    *done = 0;
    if (cfg->weights == WEIGHTS_RESUME && resume_elsewhere_counters(cfg, false, &begun) == DRV_OK) {
        rows_seek(train, begun.rows_taken);
        *done = begun.step;
    }
    if (ckpt_list(a, dir, &names, &n) != DRV_OK) return;
    while (n-- > 0) {
        run_state state;
        json_t *before;
        const char *folder = path_join(a, dir, names[n]);
        if (ckpt_step_of(folder) >= step || trainer_json_read(folder, &state, &before) != DRV_OK)
            continue;
        json_decref(set_counters_resume(train, before, state.rows_taken));
        json_decref(before);
        *done = state.step;
        return;
    }
}

static drv_status add_names(arena *a, const run_config *cfg, rows *train, int64_t step, str *out) {
    enum { MOST = 16 };
    const int64_t all = cfg->global_batch_size, n = all < MOST ? all : MOST;
    int32_t *row = mem_alloc(sizeof *row * 3 * (size_t)cfg->sequence_length);
    int64_t counted = 0, done, width = cfg->sequence_length;
    const row_out read = {row, row + width, row + 2 * width, .counted = &counted};
    drv_status status = DRV_OK;
    go_to_checkpoint(a, cfg, train, step, &done);
    rows_skip(train, (step - 1 - done) * all);
    for (int64_t i = 0; i < n && status == DRV_OK; i++) {
        status = rows_next(train, &read);
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
    if (status == DRV_OK) status = add_names(a, &alone, train, step, &names);
    if (status == DRV_OK) text = arena_printf(a, "rows of step %lld: %s", (long long)step, names.p);
    if (train) rows_close(train);
    if (valid) rows_close(valid);
    str_free(&names);
    return text;
}
