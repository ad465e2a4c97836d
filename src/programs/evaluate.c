// Evaluation: forward passes over the same rows every time.
#include "programs/evaluate.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "ir/pair_loss.h"
#include "ir/pair_word.h"
#include "base/round.h"
#include "base/str.h"
#include "ir/program_inputs.h"
#include "programs/pipeline_run.h"
#include "programs/stages.h"
#include "programs/stop_poll.h"

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
    int ranks, me;              // of those that share the micro-batches
    comm_group *joined;         // with those that share rows
    int first, n_here, n_parts; // reduction blocks of a row: on this rank, of all
    // Results by micro-batch, so that the order of addition does not depend on which rank computed
    // them; losses by partial sum (docs/adr/0026), block by block. `mine`: the losses of one
    // micro-batch as its program returns them.
    int64_t n_micro_batches, n_partial_sums, *counted;
    double *losses, *mine;
    double sum;                // of this rank so far, for the status line
    int64_t tokens, n_counted; // n_counted: of them, or of pairs, so far: what a mean is of
    // For pairs, by number: the log-probabilities of both responses, and how often the pair was
    // seen (once or not at all), [n_pairs, N_OF_PAIR]. `of_tokens`: the log-probabilities of the
    // tokens of a micro-batch, [2, tokens].
    int64_t n_pairs;
    double *pairs, *of_tokens;
    int64_t round;  // rounds so far
    stop_poll poll; // by rounds
} evaluation;
enum { OF_CHOSEN, OF_REJECTED, SEEN, N_OF_PAIR };

// Ranks may meet in each program, so all of them run the same number of micro-batches; those after
// the last row are empty.
static int64_t rounds_of(const evaluation *e) {
    return div_up(e->n_micro_batches, e->ranks);
}

// Rows [first, ...) of the evaluation, as many as a micro-batch takes.
static drv_status fill_batch(evaluation *e, int64_t first) {
    batch *b = &e->batch;
    const bool spread = rows_n_sources(e->rows) > 1 && e->n_rows < e->all;
    batch_clear(b);
    if (!spread && first < e->n_rows) rows_seek(e->rows, first);
    for (int64_t i = first; i < e->n_rows && b->filled < b->rows; i++) {
        if (spread) rows_seek(e->rows, (int64_t)((double)i * (double)e->all / (double)e->n_rows));
        DRV_TRY(batch_add_row(b, e->rows));
    }
    batch_pad(b);
    if (first < e->n_rows) e->counted[first / b->rows] = b->counted;
    e->tokens += b->counted;
    e->n_counted += b->pair ? b->pairs : b->counted;
    return DRV_OK;
}

static int64_t losses_of_part(const evaluation *e) {
    return e->n_micro_batches * e->n_partial_sums;
}

// Notes the log-probabilities of the pairs whose chosen response has its head on this rank.
static drv_status note_pairs(evaluation *e) {
    const batch *b = &e->batch;
    const int64_t n = b->rows * b->row_tokens;
    if (!b->pair) return DRV_OK;
    DRV_TRY(backend_read(e->p->held.b, "log_probs", 0, 2 * n * (int64_t)sizeof *e->of_tokens,
            e->of_tokens));
    for (int64_t i = 0; i < n; i++) {
        if (!pair_is_head(b->pair[i]) || pair_is_rejected(b->pair[i])) continue;
        double *of = e->pairs + N_OF_PAIR * b->number[pair_of_word(b->pair[i])];
        of[OF_CHOSEN] = e->of_tokens[2 * i];
        of[OF_REJECTED] = e->of_tokens[2 * i + 1];
        of[SEEN] = 1;
    }
    return DRV_OK;
}

// Notes the losses of the rows that are in the batch.
static drv_status note_loss(evaluation *e, int64_t first) {
    const batch *b = &e->batch;
    const int64_t n = e->n_here * e->n_partial_sums, at = first / b->rows * e->n_partial_sums;
    double loss = 0;
    if (first >= e->n_rows) return DRV_OK;
    DRV_TRY(note_pairs(e));
    DRV_TRY(backend_read(e->p->held.b, "loss", 0, n * (int64_t)sizeof loss, e->mine));
    for (int64_t i = 0; i < n; i++) {
        const int64_t part = e->first + i / e->n_partial_sums;
        e->losses[part * losses_of_part(e) + at + i % e->n_partial_sums] = e->mine[i];
        loss += e->mine[i];
    }
    e->sum += loss;
    if (isfinite(loss)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "the loss is %g, expected a finite number; rows: %s", loss,
            b->names.p);
}

static drv_status run_micro_batch(evaluation *e, int64_t first) {
    DRV_TRY(fill_batch(e, first));
    DRV_TRY(batch_feed_rows(&e->batch, e->p, INPUT_ALONE, 0));
    DRV_TRY(backend_run(e->p->held.b, e->p->eval));
    return note_loss(e, first);
}

static int64_t row_of_round(const evaluation *e, int64_t round) {
    return (round * e->ranks + e->me) * e->batch.rows;
}

// --- by a pipeline: this rank's stages of every micro-batch of its data rank
static int64_t first_row(const evaluation *e, const pipeline_task *item) {
    return row_of_round(e, e->round + item->micro_batch);
}

static drv_status take(void *ctx, const pipeline_task *item, const void *message) {
    evaluation *e = ctx;
    DRV_TRY(fill_batch(e, first_row(e, item)));
    stages_use(e->p, item->chunk, 0); // training has no micro-batch in flight
    if (message) DRV_TRY(stages_put(e->p, item, message));
    return batch_feed_rows(&e->batch, e->p, item->chunk, 0);
}

static drv_status compute(void *ctx, const pipeline_task *item) {
    evaluation *e = ctx;
    DRV_TRY(backend_run(e->p->held.b, e->p->stage[item->chunk].eval));
    return programs_is_last(e->p, item->chunk) ? note_loss(e, first_row(e, item)) : DRV_OK;
}

static drv_status give(void *ctx, const pipeline_task *item, void *message) {
    const evaluation *e = ctx;
    return stages_get(e->p, item, message);
}

static drv_status run_stages(evaluation *e, int64_t n_rounds) {
    const pipeline_actions actions = {.ctx = e, .take = take, .compute = compute, .give = give};
    pipeline_shape shape = stages_shape(e->p->held.config);
    pipeline_schedule schedule;
    shape.forward_only = true;
    shape.micro_batches = (int)n_rounds;
    arena *a = arena_new("schedule");
    drv_status status = pipeline_build(a, &shape, &schedule);
    if (status == DRV_OK) status = pipeline_run(e->p->link, &schedule, &actions);
    arena_free(a);
    return status;
}

// --- of all ranks
// Adds the results of all ranks: each element is zero on all ranks but one. The last stage has the
// losses.
static drv_status join_ranks(evaluation *e) {
    const int64_t n = e->n_micro_batches, n_losses = losses_of_part(e) * e->n_parts;
    const pipeline_link *link = e->p->link;
    if (link)
        DRV_TRY(comm_broadcast(link->forward, link->ranks - 1, e->losses,
                n_losses * (int64_t)sizeof(double)));
    if (link && e->pairs)
        DRV_TRY(comm_broadcast(link->forward, link->ranks - 1, e->pairs,
                N_OF_PAIR * e->n_pairs * (int64_t)sizeof(double)));
    DRV_TRY(comm_all_reduce(e->joined, DT_F64, COMM_SUM, e->losses, n_losses, NULL));
    if (e->pairs)
        DRV_TRY(comm_all_reduce(e->joined, DT_F64, COMM_SUM, e->pairs, N_OF_PAIR * e->n_pairs,
                NULL));
    return comm_all_reduce(e->joined, DT_I64, COMM_SUM, e->counted, n, NULL);
}

static drv_status run_rows(evaluation *e, int64_t n_rounds) {
    for (int64_t i = 0; i < n_rounds; i++)
        DRV_TRY(run_micro_batch(e, row_of_round(e, e->round + i)));
    return DRV_OK;
}

static void say_progress(const evaluation *e, double begin_s) {
    const int64_t most = e->round * e->ranks * e->batch.rows,
                  done = most < e->n_rows ? most : e->n_rows;
    if (e->n_rows <= e->batch.rows || e->p->n_stages) return;
    progress("evaluating: row %lld of %lld, loss %.4f, %s left", (long long)done,
            (long long)e->n_rows, e->sum / (double)(e->n_counted ? e->n_counted : 1),
            str_duration((clock_s() - begin_s) * (double)(e->n_rows - done) / (double)done));
}

static drv_status run_rounds(evaluation *e) {
    const double begin_s = clock_s();
    for (;;) {
        const int64_t left = rounds_of(e) - e->round,
                      n = left < e->poll.every ? left : e->poll.every;
        DRV_TRY(e->p->n_stages ? run_stages(e, n) : run_rows(e, n));
        e->round += n;
        if (e->round == rounds_of(e)) return DRV_OK;
        say_progress(e, begin_s);
        DRV_TRY(stop_poll_done(&e->poll, n, "evaluating"));
    }
}

static drv_status run_all(evaluation *e) {
    DRV_TRY(run_rounds(e));
    DRV_TRY(join_ranks(e));
    e->sum = 0;
    e->tokens = 0;
    for (int64_t i = 0; i < losses_of_part(e); i++)
        for (int part = 0; part < e->n_parts; part++)
            e->sum += e->losses[part * losses_of_part(e) + i];
    for (int64_t i = 0; i < e->n_micro_batches; i++)
        e->tokens += e->counted[i];
    if (e->tokens == 0) return drv_fail(DRV_E_DATA, "the evaluation data has no token to predict");
    return DRV_OK;
}

static void make_arrays(arena *a, evaluation *e) {
    e->n_micro_batches = div_up(e->n_rows, e->batch.rows);
    e->losses = ARENA_ARRAY(a, double, losses_of_part(e) * e->n_parts);
    e->mine = ARENA_ARRAY(a, double, e->n_here * e->n_partial_sums);
    e->counted = ARENA_ARRAY(a, int64_t, e->n_micro_batches);
    if (!e->batch.pair) return;
    e->n_pairs = rows_n_pairs(e->rows);
    e->pairs = ARENA_ARRAY(a, double, N_OF_PAIR * e->n_pairs);
    e->of_tokens = ARENA_ARRAY(a, double, 2 * e->batch.rows * e->batch.row_tokens);
}

static evaluation open_evaluation(arena *a, programs *p, rows *source, int64_t n_rows, comm *self) {
    const mesh *ranks = &p->layout.mesh;
    const zigzag z = p->layout.zigzag;
    evaluation e = {.p = p,
            .rows = source,
            .all = rows_per_epoch(source),
            .ranks = ranks->size[AXIS_DATA],
            .me = mesh_place(ranks, comm_rank(self), AXIS_DATA),
            .joined = comm_update_ranks(self, ranks),
            .poll = stop_poll_new(self, p->n_stages ? p->n_stages : 1),
            .first = mesh_place(ranks, comm_rank(self), AXIS_CONTEXT) * z.blocks_here,
            .n_here = z.blocks_here,
            .n_parts = zigzag_blocks(&z),
            .n_partial_sums = p->layout.partial_sums,
            .batch = batch_of_run(a, p->held.config, p->held.config->micro_batch_size)};
    e.n_rows = n_rows && n_rows < e.all ? n_rows : e.all;
    make_arrays(a, &e);
    return e;
}

// Returns the log-probabilities of both responses of each pair; NaN: the pair was not seen.
static void take_log_probs(const evaluation *e, double *out) {
    for (int64_t i = 0; i < 2 * e->n_pairs; i++) {
        const double *of = e->pairs + N_OF_PAIR * (i / 2);
        out[i] = of[SEEN] != 0 ? of[i % 2 ? OF_REJECTED : OF_CHOSEN] : (double)NAN;
    }
}

// The pairs that were seen, in the order of their numbers: as `drover eval` sums them.
static void judge_pairs(arena *a, const evaluation *e, evaluation_result *out) {
    const dpo_config *dpo = &e->p->held.config->dpo;
    double *log_probs = ARENA_ARRAY(a, double, 2 * e->n_pairs);
    take_log_probs(e, log_probs);
    const pair_sums sums = pair_sums_of(e->n_pairs, log_probs, rows_references(e->rows), dpo->beta,
            dpo->label_smoothing);
    const double n = (double)(sums.n ? sums.n : 1);
    out->n_pairs = sums.n;
    out->loss = sums.loss / n;
    out->pairs = (pair_figures){sums.chosen / n, sums.rejected / n, (double)sums.right / n};
}

drv_status evaluate(programs *p, rows *source, int64_t n_rows, comm *self, evaluation_result *out) {
    arena *a = arena_new("evaluate");
    evaluation e = open_evaluation(a, p, source, n_rows, self);
    const drv_status status = run_all(&e);
    *out = (evaluation_result){.tokens = e.tokens, .loss = e.tokens ? e.sum / (double)e.tokens : 0};
    if (status == DRV_OK && e.pairs) judge_pairs(a, &e, out);
    str_free(&e.batch.names);
    arena_free(a);
    return status;
}

drv_status evaluate_pairs(programs *p, rows *source, comm *self, double *out) {
    arena *a = arena_new("evaluate pairs");
    evaluation e = open_evaluation(a, p, source, 0, self);
    const drv_status status = run_all(&e);
    if (status == DRV_OK) take_log_probs(&e, out);
    str_free(&e.batch.names);
    arena_free(a);
    return status;
}
