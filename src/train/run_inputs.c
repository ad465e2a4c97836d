// Opens the rows of a run, and tries its inputs for `drover plan`.
#include "train/run_inputs.h"

#include "base/log.h"
#include "data/set/vocab_check.h"
#include "train/schedule.h"
#include "train/set_counters.h"
#include "setup/carry.h"
#include "setup/config_rows.h"

// All ranks see all rows, so they count the same steps.
void run_inputs_count(run_config *cfg, bool say, const rows *train, int64_t step) {
    const int64_t n = rows_per_epoch(train), taken = set_counters_taken(train);
    config_count_steps(cfg, n, step, taken);
    if (!say) return;
    const int64_t more = cfg->steps - step;
    str done = {0};
    if (step > 0) str_printf(&done, " after the %lld that are taken", (long long)taken);
    if (cfg->epochs > 0)
        log_info("training.epochs %g of %lld row%s: %lld step%s of %lld row%s%s", cfg->epochs,
                (long long)n, str_plural(n), (long long)more, str_plural(more),
                (long long)cfg->global_batch_size, str_plural(cfg->global_batch_size),
                done.p ? done.p : "");
    str_free(&done);
    schedule_warn(cfg);
}

// Rounds the bound up to a power of two, so that similar data sets share one compiled program.
static void bound_documents(run_config *cfg, const rows *train) {
    if (cfg->deterministic || !config_backend(cfg)->has_devices) return; // no program uses it
    const int64_t most = rows_most_documents(train);
    cfg->row_documents = most > 0;
    while (cfg->row_documents < most)
        cfg->row_documents *= 2;
}

drv_status run_inputs_bound(run_config *cfg) {
    rows *train = NULL;
    if (cfg->deterministic || cfg->n_train == 0) return DRV_OK;
    arena *a = arena_new("rows");
    const drv_status status = config_open_rows(a, cfg, true, 0, &train);
    if (status == DRV_OK) {
        bound_documents(cfg, train);
        rows_close(train);
    }
    arena_free(a);
    return status;
}

drv_status run_inputs_open(arena *a, run_config *cfg, bool say, rows **train, rows **valid) {
    if (cfg->n_train == 0)
        return drv_fail(DRV_E_USAGE,
                "%s: no data.train; expected the prefix of a .bin/.idx data set",
                cfg->file ? cfg->file : "configuration");
    DRV_TRY_CTX(config_open_rows(a, cfg, true, 0, train), "%s: data.train",
            config_where(cfg, "data.train"));
    run_inputs_count(cfg, say, *train, 0);
    bound_documents(cfg, *train);
    const bool split = cfg->n_valid == 0;
    if ((split && !(cfg->split[1] > 0)) || cfg->eval_every == 0) return DRV_OK;
    const char *key = split ? "data.split" : "data.valid";
    DRV_TRY_CTX(config_open_rows(a, cfg, false, 0, valid), "%s: %s", config_where(cfg, key), key);
    return DRV_OK;
}

static drv_status try_rows(arena *a, run_config *cfg, rows **train, rows **valid,
        inputs_counts *out) {
    DRV_TRY(run_inputs_open(a, cfg, true, train, valid));
    DRV_TRY(carry_check_data(cfg, *train));
    if (cfg->n_valid > 0 && *valid) DRV_TRY(carry_check_data(cfg, *valid));
    const rows *both[2] = {*train, *valid};
    vocab_check check;
    DRV_TRY(vocab_check_start(a, both, *valid ? 2 : 1, &check));
    vocab_check_cancel(&check);
    for (int i = 0; i < 2 && both[i]; i++) {
        out->rows += rows_per_epoch(both[i]);
        out->pairs += rows_n_pairs(both[i]);
    }
    return DRV_OK;
}

drv_status run_inputs_try(run_config *cfg, inputs_counts *out) {
    *out = (inputs_counts){0};
    DRV_TRY_CTX(dir_try(cfg->run_dir), "%s: key \"run_dir\"", config_where(cfg, "run_dir"));
    arena *a = arena_new("inputs of a run");
    rows *train = NULL, *valid = NULL;
    drv_status status = carry_token_ids(a, cfg);
    if (status == DRV_OK && cfg->n_train > 0) status = try_rows(a, cfg, &train, &valid, out);
    if (train) rows_close(train);
    if (valid) rows_close(valid);
    arena_free(a);
    return status;
}
