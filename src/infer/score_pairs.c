// Scores preference pairs: compares the log-probabilities of both responses with those of the
// reference, which the training run stored.
#include "infer/score.h"

#include <math.h>

#include "base/clock.h"
#include "base/exact_sum.h"
#include "base/json.h"
#include "base/log.h"
#include "ir/pair_loss.h"
#include "ir/pair_word.h"
#include "base/stop.h"
#include "data/set/reference_file.h"
#include "setup/carry.h"
#include "setup/config_rows.h"

typedef struct pair_pass {
    scorer *model;
    rows *rows;
    const dpo_config *dpo;
    const double *references; // two for each pair, by its number
    double *log_probs;        // the same for the model; NaN: not scored
    score_result *out;
    double begin_s;
} pair_pass;

static drv_status read_references(arena *a, const score_opts *opts, const run_config *cfg,
        const rows *of, const double **out) {
    const char *folder = *opts->model.adapter ? opts->model.adapter : opts->model.folder,
               *path = path_join(a, folder, "trainer.json"), *model = NULL;
    json_t *run = NULL;
    double *values = ARENA_ARRAY(a, double, 2 * rows_n_pairs(of));
    if (file_exists(path)) {
        DRV_TRY(json_read_file(path, &run));
        const drv_status status = json_get_str(path, run, "reference_model", &model);
        if (status == DRV_OK && model) model = arena_strdup(a, model);
        json_decref(run);
        DRV_TRY(status);
    }
    if (!model)
        return drv_fail(DRV_E_USAGE,
                "\"%s\" names no reference, expected a checkpoint of a run with training.objective dpo",
                folder);
    *out = values;
    if (references_load(of, model, precision_name(cfg->precision), true, values) == DRV_OK)
        return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: no log-probabilities of the reference, model %s, are stored for these pairs; a run stores them if it has the "
            "set as data.train or data.valid, with the same data.sequence_length and training.precision",
            rows_source(of, 0)->prefix, model);
}

// The tokens of a response are contiguous and begin with its head. Their losses are added as a
// run's programs add them (ir/ops/preference.c), so that the sums have the same bits.
static void take_responses(const pair_pass *p, const batch *b, const double *losses) {
    const int64_t n = b->rows * b->row_tokens;
    for (int64_t i = 0; i < n;) {
        const int32_t head = b->pair[i];
        exact_sum loss = {0};
        if (head == PAIR_NONE) {
            i++;
            continue;
        }
        do {
            if (b->pair[i] != PAIR_NONE) exact_add(&loss, losses[i]);
        } while (++i < n && !pair_is_head(b->pair[i]));
        p->log_probs[2 * b->number[pair_of_word(head)] + pair_is_rejected(head)] =
                -exact_value(&loss);
    }
}

static void sum_pairs(const pair_pass *p) {
    const pair_sums sums = pair_sums_of(rows_n_pairs(p->rows), p->log_probs, p->references,
            p->dpo->beta, p->dpo->label_smoothing);
    p->out->loss = sums.loss;
    p->out->chosen = sums.chosen;
    p->out->rejected = sums.rejected;
    p->out->right = sums.right;
}

static drv_status score_batch(pair_pass *p) {
    batch *b = scorer_batch(p->model);
    const double *losses;
    batch_clear(b);
    while (b->filled < b->rows && rows_taken(p->rows) < rows_per_epoch(p->rows))
        DRV_TRY(batch_add_row(b, p->rows));
    p->out->computed += b->filled * b->row_tokens;
    p->out->pairs += b->pairs;
    p->out->tokens += b->counted;
    batch_pad(b);
    DRV_TRY(scorer_run(p->model, &losses));
    take_responses(p, b, losses);
    return DRV_OK;
}

static drv_status score_all(pair_pass *p) {
    const double all = (double)rows_per_epoch(p->rows);
    p->begin_s = clock_s();
    while (rows_taken(p->rows) < rows_per_epoch(p->rows)) {
        if (stop_requested()) return drv_fail(DRV_STOPPED, "%s while evaluating", stop_requested());
        DRV_TRY(score_batch(p));
        p->out->seconds = clock_s() - p->begin_s;
        progress("evaluating: %.1f%%, %lld pairs", 100 * (double)rows_taken(p->rows) / all,
                (long long)p->out->pairs);
    }
    p->out->complete = true;
    return DRV_OK;
}

static drv_status open_pass(arena *a, const scorer_opts *how, pair_pass *p) {
    const int64_t n = 2 * rows_n_pairs(p->rows);
    DRV_TRY(scorer_open(a, how, &p->model));
    batch_add_pairs(a, scorer_batch(p->model));
    p->log_probs = ARENA_ARRAY(a, double, n);
    for (int64_t i = 0; i < n; i++)
        p->log_probs[i] = (double)NAN;
    return DRV_OK;
}

drv_status score_pairs(arena *a, const score_opts *opts, const run_config *cfg, score_result *out) {
    *out = (score_result){0};
    pair_pass pass = {.dpo = &cfg->dpo, .out = out};
    scorer_opts how = opts->model;
    run_config wide = *cfg;
    wide.sequence_length = how.row_tokens = opts->context;
    how.continuations = true;
    how.blocks = (int)cfg->tensor_blocks;
    how.rows = SCORER_TOKENS / how.row_tokens > 1 ? SCORER_TOKENS / how.row_tokens : 1;
    DRV_TRY_CTX(config_open_rows(a, &wide, false, 0, &pass.rows), "%s",
            cfg->n_valid ? cfg->valid[0].where : config_where(cfg, "data.split"));
    drv_status status = carry_check_data(cfg, pass.rows);
    out->longest = rows_longest(pass.rows);
    if (status == DRV_OK) status = read_references(a, opts, cfg, pass.rows, &pass.references);
    if (status == DRV_OK) status = open_pass(a, &how, &pass);
    if (status == DRV_OK) {
        status = score_all(&pass);
        sum_pairs(&pass);
    }
    progress_end();
    scorer_close(pass.model);
    rows_close(pass.rows);
    return status;
}
