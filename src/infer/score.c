// Scores documents and data sets, and reports progress.
#include "infer/score.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "infer/text_size.h"
#include "setup/carry.h"
#include "setup/config_rows.h"
#include "infer/resolve.h"

typedef struct pass { // the progress of a pass over all rows
    score_result *out;
    double begin_s, share; // share: of the rows that are done
} pass;

static drv_status after_rows(pass *p) {
    score_result *out = p->out;
    out->seconds = clock_s() - p->begin_s;
    if (stop_requested() && p->share < 1)
        return drv_fail(DRV_STOPPED, "%s while evaluating", stop_requested());
    progress("evaluating: %.1f%%, loss %.4f, %s tokens/s, %s left", 100 * p->share,
            out->loss / (double)(out->tokens ? out->tokens : 1),
            str_si((double)out->computed / out->seconds),
            str_duration(out->seconds * (1 / p->share - 1)));
    return DRV_OK;
}

static drv_status finish(drv_status status, score_result *out) {
    progress_end();
    out->complete = status == DRV_OK;
    if (status == DRV_OK && out->tokens == 0)
        return drv_fail(DRV_E_DATA, "the evaluation data has no token to predict");
    return status;
}

// --- texts
typedef struct text_pass {
    pass p;
    const double *losses; // of each token; NaN: not scored
    const documents *d;
    int64_t total; // tokens of all windows
} text_pass;

static void sum_losses(const text_pass *t) {
    score_result *out = t->p.out;
    out->loss = 0;
    out->tokens = 0;
    for (int64_t i = 0; i < t->d->ids.n; i++)
        if (!isnan(t->losses[i])) {
            out->loss += t->losses[i];
            out->tokens++;
        }
}

static drv_status after_windows(void *ctx, int64_t n_tokens) {
    text_pass *t = ctx;
    t->p.out->computed = n_tokens;
    t->p.share = (double)n_tokens / (double)t->total;
    return after_rows(&t->p);
}

static window_list windows_of(const score_opts *opts, const documents *d) {
    piece_list pieces = {0};
    for (int64_t i = 0; i < d->n; i++)
        piece_windows(&pieces, d->begin[i], d->begin[i + 1], opts->context, opts->stride);
    const window_list list = windows_of_pieces(&pieces);
    free(pieces.p);
    return list;
}

drv_status score_documents(arena *a, const score_opts *opts, const documents *texts,
        score_result *out) {
    *out = (score_result){.documents = texts->n, .bytes = texts->bytes, .words = texts->words};
    scorer_opts how = opts->model;
    scorer *model = NULL;
    text_pass t = {.p = {.out = out}, .d = texts};
    window_list list = windows_of(opts, texts);
    out->longest = list.longest;
    t.total = list.total;
    scorer_choose_rows(opts->context, out->longest, t.total, &how);
    double *losses = mem_alloc(sizeof *losses * (size_t)(texts->ids.n + 1));
    for (int64_t i = 0; i < texts->ids.n; i++)
        losses[i] = (double)NAN;
    t.losses = losses;
    drv_status status = scorer_open(a, &how, &model);
    t.p.begin_s = clock_s();
    if (status == DRV_OK)
        status = scorer_windows(model, texts->ids.p, &list, 0, list.n, losses, after_windows, &t);
    sum_losses(&t);
    scorer_close(model);
    free(losses);
    window_list_free(&list);
    return finish(status, out);
}

// --- data sets
// Adds the bytes and words of the predicted tokens.
static void add_texts(const batch *b, text_size *size) {
    for (int64_t i = 0; i < b->rows * b->row_tokens && size->id; i++)
        if (b->labels[i] >= 0) text_size_add(size, b->tokens[i], b->labels[i]);
}

static drv_status score_row(scorer *model, rows *r, text_size *size, score_result *out) {
    batch *b = scorer_batch(model);
    const double *losses;
    batch_clear(b);
    while (b->filled < b->rows && rows_taken(r) < rows_per_epoch(r))
        DRV_TRY(batch_add_row(b, r));
    out->computed += b->filled * b->row_tokens;
    batch_pad(b);
    DRV_TRY(scorer_run(model, &losses));
    for (int64_t i = 0; i < b->rows * b->row_tokens; i++)
        out->loss += losses[i];
    out->tokens += b->counted;
    add_texts(b, size);
    out->bytes = size->bytes;
    out->words = size->words;
    return DRV_OK;
}

static drv_status score_all_rows(scorer *model, rows *r, text_size *size, score_result *out) {
    pass p = {.out = out, .begin_s = clock_s()};
    while (rows_taken(r) < rows_per_epoch(r)) {
        DRV_TRY(score_row(model, r, size, out));
        p.share = (double)rows_taken(r) / (double)rows_per_epoch(r);
        DRV_TRY(after_rows(&p));
    }
    return DRV_OK;
}

static drv_status open_rows(arena *a, const run_config *cfg, int64_t stride, rows **out) {
    DRV_TRY_CTX(config_open_rows(a, cfg, false, stride, out), "%s",
            cfg->n_valid ? cfg->valid[0].where : config_where(cfg, "data.split"));
    const drv_status status = carry_check_data(cfg, *out);
    if (status != DRV_OK) rows_close(*out);
    return status;
}

drv_status score_rows(arena *a, const score_opts *opts, const run_config *cfg, score_result *out) {
    if (cfg->objective == OBJECTIVE_DPO) return score_pairs(a, opts, cfg, out);
    *out = (score_result){0};
    scorer_opts how = opts->model;
    scorer *model = NULL;
    rows *r;
    run_config wide = *cfg;
    wide.sequence_length = opts->context;
    DRV_TRY(open_rows(a, &wide, opts->stride, &r));
    out->longest = rows_longest(r);
    scorer_choose_rows(opts->context, out->longest, rows_packed_tokens(r), &how);
    if (how.row_tokens < opts->context) { // each document is one window, so rows may be shorter
        rows_close(r);
        wide.sequence_length = how.row_tokens;
        DRV_TRY(config_open_rows(a, &wide, false, how.row_tokens, &r));
    }
    text_size size;
    drv_status status =
            text_size_open(a, model_tokenizer_folder(a, how.folder, how.adapter), r, &size);
    if (status == DRV_OK) status = scorer_open(a, &how, &model);
    if (status == DRV_OK) status = score_all_rows(model, r, &size, out);
    scorer_close(model);
    rows_close(r);
    return finish(status, out);
}
