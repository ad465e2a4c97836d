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
    comm_group *share; // NULL: one rank
    // By micro-batch, so that they are added in one order whichever rank has computed them.
    int64_t n_micro_batches, *counted;
    double *losses;
    double sum; // of this rank so far, for the status line
    int64_t tokens;
} evaluation;

// Rows [first, ...) of the evaluation, as many as a micro-batch takes.
static drv_status run_micro_batch(evaluation *self, int64_t first) {
    programs *progs = self->p;
    batch *rows_in = &self->batch;
    const bool spread = rows_n_sources(self->rows) > 1 && self->n_rows < self->all;
    double loss;
    batch_clear(rows_in);
    if (!spread) rows_seek(self->rows, first);
    for (int64_t i = first; i < self->n_rows && rows_in->filled < rows_in->rows; i++) {
        if (spread)
            rows_seek(self->rows, (int64_t)((double)i * (double)self->all / (double)self->n_rows));
        DRV_TRY(batch_add_row(rows_in, self->rows));
    }
    batch_pad(rows_in);
    DRV_TRY(batch_write(rows_in, progs, 0));
    DRV_TRY(backend_run(progs->b, progs->eval));
    DRV_TRY(backend_read(progs->b, 0, "loss", 0, sizeof loss, &loss));
    self->losses[first / rows_in->rows] = loss;
    self->counted[first / rows_in->rows] = rows_in->counted;
    self->sum += loss;
    self->tokens += rows_in->counted;
    if (isfinite(loss)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "the loss is %g, expected a finite number; rows: %s", loss,
            rows_in->names.p);
}

// What the ranks have computed: each element is zero on all but one.
static drv_status join_ranks(evaluation *e) {
    const int64_t n = e->n_micro_batches;
    if (!e->share) return DRV_OK;
    DRV_TRY(comm_all_reduce(e->share, DT_F64, COMM_SUM, e->losses, n, NULL));
    return comm_all_reduce(e->share, DT_I64, COMM_SUM, e->counted, n, NULL);
}

static drv_status run_all(evaluation *self) {
    const int64_t micro = self->batch.rows;
    const int ranks = self->share ? group_size(self->share) : 1,
              me = self->share ? group_place(self->share) : 0;
    for (int64_t first = me * micro; first < self->n_rows; first += ranks * micro) {
        if (stop_requested() && ranks == 1)
            return drv_fail(DRV_STOPPED, "%s while evaluating", stop_requested());
        DRV_TRY(run_micro_batch(self, first));
        if (self->n_rows > 20 * micro)
            progress("evaluating: row %lld of %lld, loss %.4f", (long long)(first + micro),
                    (long long)self->n_rows, self->sum / (double)(self->tokens ? self->tokens : 1));
    }
    DRV_TRY(join_ranks(self));
    self->sum = 0;
    self->tokens = 0;
    for (int64_t i = 0; i < self->n_micro_batches; i++) {
        self->sum += self->losses[i];
        self->tokens += self->counted[i];
    }
    if (self->tokens == 0)
        return drv_fail(DRV_E_DATA, "the evaluation data has no token to predict");
    return DRV_OK;
}

drv_status evaluate(programs *p, rows *r, int64_t n_rows, comm_group *share, double *loss,
        int64_t *tokens) {
    arena *a = arena_new("evaluate");
    evaluation e = {.p = p,
            .rows = r,
            .all = rows_per_epoch(r),
            .share = share,
            .batch = batch_new(a, p->c->micro_batch_size, p->c->sequence_length)};
    e.n_rows = n_rows && n_rows < e.all ? n_rows : e.all;
    e.n_micro_batches = div_up(e.n_rows, e.batch.rows);
    e.losses = ARENA_ARRAY(a, double, e.n_micro_batches);
    e.counted = ARENA_ARRAY(a, int64_t, e.n_micro_batches);
    drv_status status = run_all(&e);
    *tokens = e.tokens;
    *loss = e.tokens ? e.sum / (double)e.tokens : 0;
    str_free(&e.batch.names);
    arena_free(a);
    return status;
}
