// Evaluation: forward passes over the same rows every time.
#include "train/evaluate.h"

#include <math.h>

#include "base/log.h"
#include "base/round.h"
#include "train/stop.h"

int64_t evaluate_run_rows(const run_config *cfg, const rows *r) {
    const int64_t batch_tokens = cfg->global_batch_size * cfg->sequence_length;
    const int64_t all = rows_per_epoch(r), batches = cfg->eval_batches
                                                             ? cfg->eval_batches
                                                             : div_up(EVAL_TOKENS, batch_tokens);
    if (batches > all / cfg->global_batch_size) return all;
    return batches * cfg->global_batch_size;
}

typedef struct evaluation {
    programs *p;
    rows *rows;
    int64_t n_rows, all;
    batch batch;
    double sum; // of the losses of all tokens so far
    int64_t tokens;
} evaluation;

// Rows [first, ...) of the evaluation, as many as a micro-batch takes.
static drv_status run_micro_batch(evaluation *e, int64_t first) {
    programs *p = e->p;
    batch *b = &e->batch;
    const bool spread = rows_n_sources(e->rows) > 1 && e->n_rows < e->all;
    double loss;
    batch_clear(b);
    for (int64_t i = first; i < e->n_rows && b->filled < b->rows; i++) {
        if (spread) rows_seek(e->rows, (int64_t)((double)i * (double)e->all / (double)e->n_rows));
        DRV_TRY(batch_add_row(b, e->rows));
    }
    batch_pad(b);
    DRV_TRY(batch_write(b, p, 0));
    DRV_TRY(backend_run(p->b, p->eval));
    DRV_TRY(backend_read(p->b, 0, "loss", 0, sizeof loss, &loss));
    e->sum += loss;
    e->tokens += b->counted;
    if (isfinite(loss)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "the loss is %g, expected a finite number; rows: %s", loss,
            b->names.p);
}

static drv_status run_all(evaluation *e) {
    const int64_t micro = e->batch.rows;
    rows_seek(e->rows, 0);
    for (int64_t first = 0; first < e->n_rows; first += micro) {
        if (stop_requested()) return drv_fail(DRV_STOPPED, "%s while evaluating", stop_requested());
        DRV_TRY(run_micro_batch(e, first));
        if (e->n_rows > 20 * micro)
            progress("evaluating: row %lld of %lld, loss %.4f", (long long)(first + e->batch.rows),
                    (long long)e->n_rows, e->sum / (double)(e->tokens ? e->tokens : 1));
    }
    if (e->tokens == 0) return drv_fail(DRV_E_DATA, "the evaluation data has no token to predict");
    return DRV_OK;
}

drv_status evaluate(programs *p, rows *r, int64_t n_rows, double *loss, int64_t *tokens) {
    arena *a = arena_new("evaluate");
    evaluation e = {.p = p,
            .rows = r,
            .all = rows_per_epoch(r),
            .batch = batch_new(a, p->c->micro_batch_size, p->c->sequence_length)};
    e.n_rows = n_rows && n_rows < e.all ? n_rows : e.all;
    drv_status status = run_all(&e);
    *tokens = e.tokens;
    *loss = e.tokens ? e.sum / (double)e.tokens : 0;
    str_free(&e.batch.names);
    arena_free(a);
    return status;
}
