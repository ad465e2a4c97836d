#include "train/batch.h"

#include "base/log.h"
#include "base/round.h"

drv_status batch_open_rows(arena *a, const run_config *c, bool train, rows **out) {
    const double total = c->split[0] + c->split[1] + c->split[2];
    const bool split = total > 0 && c->n_valid == 0;
    const data_source *list = train || split ? c->train : c->valid;
    rows_opts o = {.n_sources = train || split ? c->n_train : c->n_valid,
            .row_tokens = c->sequence_length,
            .n_vocab = c->model.vocab_size,
            .seed = (uint64_t)c->seed,
            .shuffle = train,
            .documents = c->pack == PACK_DOCUMENTS,
            .part = train ? PART_TRAIN : PART_VALID};
    if (split) memcpy(o.split, c->split, sizeof o.split);
    row_source_spec *s = ARENA_ARRAY(a, row_source_spec, o.n_sources + 1);
    for (int i = 0; i < o.n_sources; i++)
        s[i] = (row_source_spec){list[i].prefix, list[i].weight};
    o.sources = s;
    return rows_open(a, &o, out);
}

batch batch_new(arena *a, int64_t n_rows, int64_t row_tokens) {
    const int64_t n = n_rows * row_tokens;
    return (batch){n_rows, row_tokens, ARENA_ARRAY(a, int32_t, n), ARENA_ARRAY(a, int32_t, n),
            ARENA_ARRAY(a, int32_t, n), 0, {0}};
}

drv_status batch_fill(batch *b, rows *r) {
    b->counted = 0;
    str_clear(&b->names);
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t at = i * b->row_tokens;
        DRV_TRY(rows_next(r, b->tokens + at, b->position + at, b->labels + at, &b->counted));
        if (i < 8) str_printf(&b->names, "%s%s", i ? ", " : "", rows_last(r));
    }
    if (b->rows > 8) str_printf(&b->names, " and %lld more", (long long)b->rows - 8);
    return DRV_OK;
}

drv_status batch_write(const batch *b, programs *p, int64_t index) {
    const int64_t n = p->c->micro_batch_size * b->row_tokens, at = index * n, bytes = n * 4;
    for (int rank = 0; rank < p->b->n_local_ranks; rank++) {
        DRV_TRY(backend_write(p->b, rank, "tokens", 0, bytes, b->tokens + at));
        DRV_TRY(backend_write(p->b, rank, "position", 0, bytes, b->position + at));
        DRV_TRY(backend_write(p->b, rank, "labels", 0, bytes, b->labels + at));
    }
    return DRV_OK;
}

drv_status evaluate(arena *a, programs *p, rows *r, int64_t n_batches, double *loss,
        int64_t *tokens) {
    const int64_t micro = p->c->micro_batch_size;
    const int64_t all = div_up(rows_per_epoch(r), micro);
    const int64_t n = n_batches && n_batches < all ? n_batches : all;
    batch b = batch_new(a, micro, p->c->sequence_length);
    double sum = 0;
    *tokens = 0;
    rows_seek(r, 0);
    for (int64_t i = 0; i < n; i++) {
        DRV_TRY(batch_fill(&b, r));
        // The rows that would begin the next epoch do not count twice.
        for (int64_t k = rows_per_epoch(r) - i * micro; k < micro; k++)
            for (int64_t t = 0; t < b.row_tokens; t++) {
                int32_t *label = &b.labels[k * b.row_tokens + t];
                b.counted -= *label >= 0;
                *label = -1;
            }
        double part;
        DRV_TRY(batch_write(&b, p, 0));
        DRV_TRY(backend_run(p->b, p->eval));
        DRV_TRY(backend_read(p->b, 0, "loss", 0, sizeof part, &part));
        sum += part;
        *tokens += b.counted;
        if (n > 20)
            progress("evaluating: micro-batch %lld of %lld, loss %.4f", (long long)i + 1,
                    (long long)n, sum / (double)*tokens);
    }
    str_free(&b.names);
    if (*tokens == 0) return drv_fail(DRV_E_DATA, "the evaluation data has no token to predict");
    *loss = sum / (double)*tokens;
    return DRV_OK;
}
