// The training loop, the file to read first: opens the run, takes steps (micro-batches, update,
// report, evaluation, save) until the last, a stop or a failure, and saves the last finished step.
#include "train/train.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/elementary.h"
#include "base/log.h"
#include "base/stop.h"
#include "programs/evaluate.h"
#include "train/audit.h"
#include "train/replicas.h"
#include "train/schedule.h"
#include "search/step_terms.h"
#include "setup/carry.h"
#include "setup/device.h"
#include "weights/lora_state.h"

// --- a step
static void fill_hyper(const run_config *cfg, double lr, int64_t updates, double out[N_HYPER]) {
    out[HYPER_LR] = lr;
    out[HYPER_C1] = 1 - drv_pow(cfg->betas[0], (double)updates);
    out[HYPER_C2] = 1 - drv_pow(cfg->betas[1], (double)updates);
    out[HYPER_CLIP] = cfg->clip_grad_norm;
    out[HYPER_UPDATE] = (double)updates;
}

static drv_status begin_hashes(run *r, const batch *b, step_metrics *m) {
    const int64_t every = r->rank.cfg->hash_every;
    m->hashed = every > 0 && m->step % every == 0;
    if (!m->hashed) return DRV_OK;
    arena_free(r->progress.hashed);
    r->progress.hashed = arena_new("hashes");
    comm_note(r->rank.comm, m->step, "hashes");
    m->hashes.arithmetic = json_string_value(json_object_get(r->opened.about, "arithmetic"));
    DRV_TRY(hashes_begin(r->progress.hashed, &r->opened.programs.held, batch_hash(b, r->rank.cfg),
            &m->hashes));
    return r->audit ? audit_begin_step(r, m) : DRV_OK;
}

static drv_status take_hashes(run *r, step_metrics *m) {
    if (!m->hashed) return DRV_OK;
    comm_note(r->rank.comm, m->step, "hashes");
    return hashes_take(r->progress.hashed, &r->opened.programs.held, &m->hashes);
}

// Runs forward and backward. A stop discards the step, which a resume computes again, so the bits
// do not depend on when a run was stopped. If the devices refused the program, all ranks are at
// this point with the weights of the step before, which they can save.
static drv_status compute_gradients(run *r, const batch *b, double *loss) {
    if (backend_times_nodes(r->rank.b)) backend_time_nodes(r->rank.b, true);
    const drv_status status = stepper_gradients(&r->opened.stepper, b, loss);
    return r->rank.b->refused ? ranks_together(&r->rank, status) : status;
}

static bool state_was_read(void *ctx, double at_most_s, drv_status *status) {
    const run *r = ctx;
    *status = DRV_OK; // run_settle_save handles a save that failed
    return ckpt_was_read(r->saving.saver, at_most_s);
}

// Waits for a checkpoint that is still reading the weights. A stop discards the step: the
// checkpoint that is being written is then the last one.
static drv_status wait_for_state(run *r) {
    return !run_is_saving(r) ? DRV_OK
                             : ranks_wait(&r->rank, state_was_read, r, "a checkpoint was written");
}

// Runs forward and backward, then the update, and waits for each.
static drv_status run_apart(run *r, const batch *b, started_step *s) {
    double hyper[N_HYPER];
    step_values *v = &s->values;
    fill_hyper(r->rank.cfg, s->m.lr, r->progress.state.updates + 1, hyper);
    const double begin = clock_s();
    DRV_TRY(compute_gradients(r, b, &v->loss));
    const double compute = clock_s();
    DRV_TRY(begin_hashes(r, b, &s->m));
    DRV_TRY(wait_for_state(r));
    const double saved = clock_s();
    r->progress.weights = WEIGHTS_BETWEEN; // until the update is done
    DRV_TRY(stepper_update(&r->opened.stepper, hyper, &v->grad_norm, &v->param_norm));
    r->progress.weights = WEIGHTS_OF_STEP;
    s->m.pairs = r->opened.stepper.figures;
    s->m.compute_s = compute - begin;
    s->m.save_s = saved - compute;
    r->saving.blocked_s += s->m.save_s;
    s->m.update_s = clock_s() - saved;
    return take_hashes(r, &s->m);
}

// Starts the step as one program. The step before may still be computing, and only the device will
// know whether it was skipped, so the program gets the hyperparameters for both cases.
static drv_status start_whole(run *r, const batch *b, started_step *s) {
    double hyper[2 * N_HYPER];
    const int64_t updates = r->progress.state.updates + 1;
    fill_hyper(r->rank.cfg, s->m.lr, updates + r->progress.n_started, hyper);
    fill_hyper(r->rank.cfg, s->m.lr, updates, hyper + N_HYPER);
    const double begin = clock_s();
    DRV_TRY(wait_for_state(r));
    s->m.save_s = clock_s() - begin;
    r->saving.blocked_s += s->m.save_s;
    const int64_t n_run = r->rank.b->n_run;
    const drv_status status = stepper_start(&r->opened.stepper, b, hyper, &s->values);
    // A step that the device has not begun leaves the weights as they were.
    if (status != DRV_OK && r->rank.b->n_run > n_run)
        r->progress.weights = WEIGHTS_LOST;
    else if (status == DRV_OK || r->progress.n_started > 0)
        r->progress.weights = WEIGHTS_BETWEEN;
    return status;
}

typedef struct next_rows {
    run *r;
    bool more;
    batch *taken;
    double begin_s, read_s; // clock at the beginning; seconds until this rank's rows were read
} next_rows;

static bool rows_were_read(void *ctx, double at_most_s, drv_status *status) {
    next_rows *next = ctx;
    if (!batch_reader_ready(&next->r->opened.reader, at_most_s)) return false;
    *status = batch_reader_next(&next->r->opened.reader, next->more, &next->taken);
    next->read_s = clock_s() - next->begin_s;
    return true;
}

static drv_status start_step(run *r) {
    const run_config *cfg = r->rank.cfg;
    started_step *started =
            &r->progress.started[(r->progress.first_started + r->progress.n_started) % MAX_STARTED];
    const int n_sets = rows_n_sources(r->opened.train_rows);
    const int64_t step = r->progress.state.step + r->progress.n_started + 1;
    started->begin = clock_s();
    started->waited = comm_waited(r->rank.comm);
    started->sent = comm_sent_by(r->rank.comm);
    next_rows next = {.r = r, .more = step < cfg->steps, .begin_s = started->begin};
    DRV_TRY(ranks_wait(&r->rank, rows_were_read, &next, "rows were read"));
    batch *taken = next.taken;
    started->read_s = next.read_s;
    int64_t counts[] = {taken->counted, taken->pairs};
    DRV_TRY(comm_all_reduce(comm_update_ranks(r->rank.comm, &r->opened.stepper.mesh), DT_I64,
            COMM_SUM, counts, 2, NULL));
    taken->counted = counts[0];
    taken->pairs = counts[1];
    started->m = (step_metrics){.step = step,
            .n_pairs = taken->pairs,
            .lr = schedule_lr(cfg, step),
            .data_s = clock_s() - started->begin}; // seconds that the step waited for rows
    started->values = (step_values){(double)NAN, (double)NAN, (double)NAN, 0};
    started->counted = taken->counted;
    started->rows_taken = taken->rows_taken;
    memcpy(started->counts, taken->counts, sizeof *taken->counts * (size_t)n_sets);
    str_clear(&started->rows);
    str_puts(&started->rows, taken->names.p);
    r->opened.stepper.step = step;
    if (taken->counted)
        DRV_TRY(r->opened.programs.whole_step ? start_whole(r, taken, started)
                                              : run_apart(r, taken, started));
    r->progress.n_started++;
    return DRV_OK;
}

// Returns the share of the peak that the step reached; 0: unknown. If a step is faster than the
// peak, other programs held the cores when the peak was measured. It is then measured again, a few
// times in a run, unless a step may be computing meanwhile.
static double share_of_peak(run *r, double flops_per_s) {
    enum { MAX_DOUBTS = 3 };
    if (r->opened.peak_flops <= 0) return 0;
    if (flops_per_s > r->opened.peak_flops && !r->opened.programs.whole_step &&
            r->progress.n_doubts < MAX_DOUBTS) {
        r->progress.n_doubts++;
        if (run_measure_peak(r) != DRV_OK) return 0;
    }
    return flops_per_s > r->opened.peak_flops ? 0 : flops_per_s / r->opened.peak_flops;
}

static void fill_metrics(run *r, step_metrics *m) {
    const run_config *cfg = r->rank.cfg;
    m->steps = cfg->steps;
    m->tokens = r->progress.state.tokens;
    m->step_tokens = cfg->global_batch_size * cfg->sequence_length;
    m->step_samples = cfg->global_batch_size;
    m->consumed_samples = r->progress.state.rows_taken;
    m->tokens_per_s = (double)m->step_tokens / m->step_s;
    m->mfu = share_of_peak(r, m->tokens_per_s * r->opened.flops_per_token);
    r->progress.mean_step_s = r->progress.mean_step_s > 0
                                      ? 0.9 * r->progress.mean_step_s + 0.1 * m->step_s
                                      : m->step_s;
    m->eta_s = r->progress.mean_step_s * (double)(cfg->steps - m->step);
}

// For each line of the log, gathers from all ranks the times of the steps since the last line.
static drv_status share_times(run *r, step_metrics *m) {
    rank_times *t = &r->shown.times;
    m->times = t;
    m->shared = m->step % r->rank.cfg->log_every == 0 || m->step == m->steps;
    if (!m->shared) return DRV_OK;
    rank_watch_energy(r, m->step);
    DRV_TRY(rank_times_share(t));
    if (comm_size(r->rank.comm) == 1) return DRV_OK;
    const rank_time *mine = &t->of[comm_rank(r->rank.comm)];
    log_file_only(
            "step %lld: compute %.3f s, data %.3f s, save %.3f s, waited %.3f s, sent %.0f bytes; slowest rank %d",
            (long long)m->step, mine->compute, mine->data, mine->save, mine->wait, mine->sent,
            t->slowest);
    return DRV_OK;
}

// A negative NaN would be printed as "-nan".
static double without_sign(double x) {
    return isnan(x) ? (double)NAN : x;
}

// Steps that were started after a failed one have used its weights, so none of them counts.
static drv_status finish_whole(run *r, step_values *values) {
    const drv_status status = stepper_finish(&r->opened.stepper, values);
    if (status != DRV_OK)
        r->progress.weights = WEIGHTS_LOST;
    else if (r->progress.weights != WEIGHTS_LOST)
        r->progress.weights = r->progress.n_started > 1 ? WEIGHTS_BETWEEN : WEIGHTS_OF_STEP;
    if (status != DRV_OK) r->progress.n_started = 0;
    return status;
}

static const char *term_name(int term) {
    return step_term_name((step_term)term);
}

// Splits the time of this rank's step into terms, without the waits for rows and checkpoints.
static void take_terms(const run *r, step_metrics *m) {
    if (!backend_times_nodes(r->rank.b)) return;
    step_terms_measure(&r->opened.programs, m->compute_s + m->update_s, m->terms);
    m->n_terms = N_STEP_TERMS;
    m->term_name = term_name;
}

// Waits for the oldest step that was started, and makes it the last finished one.
static drv_status take_step(run *r, step_metrics *made) {
    started_step *started = &r->progress.started[r->progress.first_started];
    run_state *state = &r->progress.state;
    if (r->opened.programs.whole_step && started->counted)
        DRV_TRY(finish_whole(r, &started->values));
    const double now = clock_s(), begin = started->begin > r->progress.finished_s
                                                  ? started->begin
                                                  : r->progress.finished_s;
    *made = started->m;
    if (started->counted) take_terms(r, made);
    made->loss = without_sign(started->values.loss);
    made->grad_norm = without_sign(started->values.grad_norm);
    made->param_norm = started->values.param_norm;
    made->skipped = !isfinite(made->grad_norm);
    made->step_s = now - begin;
    if (r->opened.programs.whole_step) made->compute_s = made->step_s - made->data_s - made->save_s;
    r->progress.finished_s = now;
    state->step = made->step;
    state->rows_taken = started->rows_taken;
    memcpy(r->progress.set_counts, started->counts,
            sizeof *r->progress.set_counts * (size_t)rows_n_sources(r->opened.train_rows));
    state->tokens += started->counted;
    state->loss = made->loss;
    rank_time mine = {.data = started->read_s, .save = made->save_s};
    mine.wait = comm_waited(r->rank.comm) - started->waited;
    mine.sent = (double)(comm_sent_by(r->rank.comm) - started->sent);
    mine.compute = made->step_s - rank_time_own(&mine) - mine.wait;
    rank_times_add(&r->shown.times, &mine);
    rank_watch_share_figures(r, &mine);
    fill_metrics(r, made);
    DRV_TRY(share_times(r, made));
    return rank_watch_stragglers(r, made->step);
}

// After a skipped step: a weight that is not finite ends the run, since no step can repair it.
static drv_status check_weights(run *r) {
    if (r->opened.programs.whole_step) return DRV_OK; // the weights may be those of a later step
    const drv_status status = ranks_together(&r->rank,
            replicas_check_finite(&r->opened.programs.held, r->progress.state.step));
    if (status != DRV_OK) r->progress.weights = WEIGHTS_LOST;
    if (status != DRV_OK) r->ending.not_finite = true;
    return status;
}

// Counts a step as applied or skipped. Too many skipped steps in a row end the run.
static drv_status count_bad_step(run *r, const started_step *started, const step_metrics *made) {
    run_state *state = &r->progress.state;
    const char *why =
            started->counted ? "the gradient is NaN or infinite" : "there is no token to predict";
    if (!made->skipped) {
        state->updates++;
        state->bad_steps = 0;
        return DRV_OK;
    }
    state->bad_steps++;
    DRV_TRY(check_weights(r));
    const int bad = stepper_bad_rank(&r->opened.stepper);
    if (r->rank.leads && bad == 0)
        log_warn("step %lld skipped: %s (loss %g, gradient norm %g); its rows: %s",
                (long long)made->step, why, made->loss, made->grad_norm, started->rows.p);
    else if (r->rank.leads)
        log_warn("step %lld skipped: %s (loss %g, gradient norm %g), first on rank %d (%s)",
                (long long)made->step, why, made->loss, made->grad_norm, bad,
                comm_host(r->rank.comm, bad));
    if (state->bad_steps < r->rank.cfg->max_bad_steps) return DRV_OK;
    drv_status status = DRV_OK;
    r->ending.not_finite = true;
    if (comm_rank(r->rank.comm) == bad)
        status = drv_fail(DRV_E_DATA,
                "stopped at step %lld: %lld %s skipped: %s (loss %g); rows of the last: %s",
                (long long)made->step, (long long)state->bad_steps,
                state->bad_steps > 1 ? "steps in a row were" : "step was", why, made->loss,
                started->rows.p);
    return ranks_together(&r->rank, status);
}

// --- around the steps
// Metrics that cannot be written do not end a run: the disk may be full for a while.
static void note_metrics(run *r, drv_status status) {
    if (status != DRV_OK && !r->progress.metrics_failing) log_warn("metrics: %s", drv_message());
    r->progress.metrics_failing = status != DRV_OK;
}

static bool evaluation_is_due(const run *r) {
    const run_state *state = &r->progress.state;
    if (!r->opened.valid_rows || state->evaluated >= state->step) return false;
    return state->step % r->rank.cfg->eval_every == 0 || state->step == r->rank.cfg->steps;
}

static drv_status validate(run *r) {
    evaluation_result result;
    const double begin = clock_s();
    comm_note(r->rank.comm, r->progress.state.step, "eval");
    r->evaluates = true;
    const drv_status status = evaluate(&r->opened.programs, r->opened.valid_rows,
            evaluate_run_rows(r->rank.cfg, r->opened.valid_rows), r->rank.comm, &result);
    r->evaluates = false;
    DRV_TRY(status);
    r->progress.state.evaluated = r->progress.state.step;
    r->progress.state.val_loss = result.loss;
    if (!r->rank.leads) return DRV_OK;
    DRV_TRY(run_measure_peak(r)); // no step computes now
    record_evaluation(r->shown.record, r->progress.state.step, clock_s() - begin, result.loss);
    report_valid(r->shown.report, r->progress.state.step, &result);
    note_metrics(r, metrics_valid(r->shown.metrics, r->progress.state.step, &result));
    return DRV_OK;
}

// Waits for the check of small data sets; large ones are checked while the first steps run.
static drv_status wait_for_vocabulary(run *r) {
    const struct timespec pause = {0, 5000000};
    const double until = clock_s() + 2;
    if (!r->rank.leads) return DRV_OK;
    while (!vocab_check_done(&r->opened.vocab) && clock_s() < until && !stop_requested())
        nanosleep(&pause, NULL);
    return vocab_check_done(&r->opened.vocab) ? vocab_check_wait(&r->opened.vocab) : DRV_OK;
}

// Waits for the oldest step that was started, and reports it.
static drv_status finish_step(run *r) {
    step_metrics m;
    DRV_TRY(take_step(r, &m));
    drv_saved bad;
    drv_save(count_bad_step(r, &r->progress.started[r->progress.first_started], &m), &bad);
    r->progress.first_started = (r->progress.first_started + 1) % MAX_STARTED;
    r->progress.n_started--;
    record_step(r->shown.record, &m);
    if (r->rank.leads) report_step(r->shown.report, &m);
    if (r->rank.leads) note_metrics(r, metrics_step(r->shown.metrics, &m));
    DRV_TRY(drv_restore(&bad));
    return r->audit ? audit_end_step(r, &m) : DRV_OK;
}

drv_status run_finish_steps(run *r) {
    while (r->progress.n_started)
        DRV_TRY(finish_step(r));
    return DRV_OK;
}

static bool save_is_due(const run *r, int64_t step) {
    return r->rank.cfg->checkpoint_every > 0 && step % r->rank.cfg->checkpoint_every == 0;
}

// Returns the last step that this process is to take.
static int64_t last_step(const run_config *cfg) {
    return cfg->stop_at_step > 0 && cfg->stop_at_step < cfg->steps ? cfg->stop_at_step : cfg->steps;
}

// Returns whether the step that was started last may still be computing while the next one is
// prepared: nothing that happens after it needs its weights or its result.
static bool may_run_ahead(const run *r, bool first) {
    const run_config *cfg = r->rank.cfg;
    const started_step *s =
            &r->progress.started[(r->progress.first_started + r->progress.n_started - 1) %
                                 MAX_STARTED];
    const int64_t step = s->m.step;
    const bool evaluates = r->opened.valid_rows && step % cfg->eval_every == 0;
    return r->opened.programs.whole_step && !first && s->counted && step < last_step(cfg) &&
           !evaluates && !save_is_due(r, step) && !stop_requested() &&
           r->progress.state.bad_steps + r->progress.n_started < cfg->max_bad_steps;
}

// Finds a rank whose weights differ before they are saved.
static drv_status compare_replicas(run *r) {
    if (!run_checks_replicas(r) || r->progress.n_started ||
            r->progress.state.step % r->rank.cfg->check_every != 0)
        return DRV_OK;
    comm_note(r->rank.comm, r->progress.state.step, "compare weights");
    const drv_status status = ranks_together(&r->rank,
            replicas_check(&r->opened.programs.held, r->progress.state.step));
    if (status != DRV_OK)
        r->progress.weights = WEIGHTS_LOST; // the program cannot tell which are right
    return status;
}

static bool save_has_ended(void *ctx, double at_most_s, drv_status *status) {
    const run *r = ctx;
    *status = DRV_OK; // run_settle_save handles the result
    return ckpt_ended(r->saving.saver, at_most_s);
}

// Waits for the previous save; a stop ends the wait.
static drv_status wait_for_save(run *r) {
    return !run_is_saving(r) ? DRV_OK
                             : ranks_wait(&r->rank, save_has_ended, r, "a checkpoint was written");
}

static drv_status one_round(run *r, bool first) {
    DRV_TRY(start_step(r));
    const int ahead = may_run_ahead(r, first);
    while (r->progress.n_started > ahead)
        DRV_TRY(finish_step(r));
    DRV_TRY(compare_replicas(r));
    if (first) DRV_TRY(programs_check_held(&r->opened.programs));
    if (!r->progress.n_started && evaluation_is_due(r)) DRV_TRY(validate(r));
    bool asked;
    const bool checked = r->rank.leads && vocab_check_done(&r->opened.vocab);
    DRV_TRY(run_agree(r, checked ? vocab_check_wait(&r->opened.vocab) : DRV_OK, &asked));
    if (asked) DRV_TRY(run_finish_steps(r));
    if (asked || (!r->progress.n_started && save_is_due(r, r->progress.state.step))) {
        DRV_TRY(wait_for_save(r));
        DRV_TRY(run_start_save(r));
    }
    return run_settle_save(r, false);
}

static bool is_to_stop(const run *r) {
    return r->ending.stop || (comm_size(r->rank.comm) == 1 && stop_requested());
}

static void log_nothing_to_do(const run *r) {
    const run_config *cfg = r->rank.cfg;
    if (r->progress.state.step > cfg->steps)
        log_info("nothing to do: step %lld is done, and %s asks for %lld; raise it to go on",
                (long long)r->progress.state.step, config_length_key(cfg), (long long)cfg->steps);
    else if (r->progress.state.step == cfg->steps)
        log_info("nothing to do: step %lld of %lld is done; raise %s to go on",
                (long long)cfg->steps, (long long)cfg->steps, config_length_key(cfg));
    else if (r->progress.state.step >= last_step(cfg))
        log_info("nothing to do: step %lld is done, and training.stop_at_step is %lld; raise it to go on",
                (long long)r->progress.state.step, (long long)cfg->stop_at_step);
}

// Predicts the time of a step, for comparison with measured steps; NULL: it cannot be predicted.
static json_t *plan_json(const run *r) {
    if (!*r->rank.cfg->device && !(r->opened.peak_flops > 0)) return NULL;
    arena *a = arena_new("a plan");
    device_profile device;
    step_cost cost;
    json_t *made = NULL;
    const drv_status status = step_terms_plan(a, r->rank.cfg, &r->opened.programs,
            r->opened.peak_flops / comm_size(r->rank.comm), &device, &cost);
    if (status == DRV_OK)
        made = json_pack("{s:s, s:f, s:o}", "device", device.name, "step_s", cost.seconds, "terms",
                step_terms_json(&cost));
    else
        log_warn("steps are reported without a plan: %s", drv_message());
    arena_free(a);
    return made;
}

static drv_status loop(run *r) {
    const run_config *cfg = r->rank.cfg;
    log_nothing_to_do(r);
    DRV_TRY(ranks_together(&r->rank, wait_for_vocabulary(r)));
    if (evaluation_is_due(r)) DRV_TRY(validate(r));
    DRV_TRY(run_check_dir(r));
    if (!r->audit && r->saving.saved_step >= 0) run_retain(r);
    r->saving.began_s = clock_s();
    bool asked; // for a save, while the run was opened
    DRV_TRY(run_agree(r, DRV_OK, &asked));
    if (asked) DRV_TRY(run_start_save(r));
    if (r->rank.leads && r->progress.state.step < last_step(cfg))
        record_running(r->shown.record, r->progress.state.step + 1, rank_watch_energy_text(r),
                plan_json(r));
    for (bool first = true; r->progress.state.step < last_step(cfg); first = false) {
        if (is_to_stop(r)) {
            DRV_TRY(run_finish_steps(r));
            return drv_fail(DRV_STOPPED, "%s", run_stop_reason(r));
        }
        DRV_TRY(one_round(r, first));
    }
    if (r->progress.state.step >= cfg->steps || r->audit) return DRV_OK;
    r->ending.stop = STOP_AT_STEP;
    return drv_fail(DRV_STOPPED, "%s", run_stop_reason(r));
}

static drv_status set_up(run *r, run_config *cfg) {
    DRV_TRY(ranks_set_up(&r->rank, cfg));
    DRV_TRY(carry_token_ids(r->rank.a, cfg));
    return lora_resolve(r->rank.a, cfg);
}

static drv_status open_and_run(run *r, run_config *cfg, bool fresh) {
    DRV_TRY(ranks_together(&r->rank, set_up(r, cfg)));
    const drv_status opened = run_open(r, fresh);
    if (opened == DRV_STOPPED) return run_end_early(r);
    DRV_TRY(opened);
    run_tell_stop(r);
    return run_end(r, loop(r));
}

drv_status run_all(run *r, run_config *cfg, bool fresh) {
    r->progress.began_s = clock_s();
    drv_saved ended;
    drv_save(open_and_run(r, cfg, fresh), &ended);
    record_end(r->shown.record, ended.status, r->ending.not_finite ? "not_finite" : NULL,
            ended.message, !r->rank.together || comm_size(r->rank.comm) == 1);
    return drv_restore(&ended);
}

drv_status train_refuse(arena *a, drv_status status) {
    this_rank rank = {.a = a};
    drv_saved refused;
    drv_save(status, &refused);
    stop_listen(); // `srun -K` ends the other ranks by SIGTERM when the first one has ended with 2
    if (comm_launched() == 1 || comm_open(a, NULL, &rank.comm) != DRV_OK)
        return drv_restore(&refused);
    rank.leads = comm_rank(rank.comm) == 0;
    drv_save(ranks_together(&rank, drv_restore(&refused)), &refused);
    return ranks_leave(&rank, &refused);
}

// Ranks are either processes or the devices of one process (docs/adr/0025).
static drv_status check_processes(const run_config *cfg) {
    if (!config_backend(cfg)->has_devices || comm_launched() == 1 || cfg->pjrt.devices <= 1)
        return DRV_OK;
    return config_refuse(cfg, "pjrt.devices",
            "is %lld, but %d processes were started; expected 1 (one device "
            "for each process), or one process",
            (long long)cfg->pjrt.devices, comm_launched());
}

static drv_status train_as(arena *a, const run_config *config, bool fresh, struct audit *audit) {
    run_config *cfg = ARENA_NEW(a, run_config);
    run *r = ARENA_NEW(a, run);
    *r = (run){.rank = {.a = a, .cfg = cfg}, .audit = audit, .saving.saved_step = -1};
    *cfg = *config;
    const int n_devices = comm_launched() > 1 ? 1 : device_count(config);
    const drv_status processes = check_processes(config);
    if (processes != DRV_OK) return train_refuse(a, processes);
    stop_listen(); // before ranks connect: a rank that a signal ended would look dead to the others
    if (n_devices > 1) return run_on_devices(config, n_devices, fresh);
    const comm_opts opts = {.give_up_s = cfg->give_up_s};
    DRV_TRY(comm_open(a, &opts, &r->rank.comm));
    r->rank.leads = comm_rank(r->rank.comm) == 0;
    drv_saved ended;
    drv_save(run_all(r, cfg, fresh), &ended);
    run_close(r);
    return ranks_leave(&r->rank, &ended);
}

drv_status train(arena *a, const run_config *config, bool fresh) {
    return train_as(a, config, fresh, NULL);
}

drv_status train_audited(arena *a, const run_config *config, struct audit *audit) {
    return train_as(a, config, true, audit);
}
