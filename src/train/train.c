// The loop, the page to read first: open, then steps of (micro-batches, update, report, evaluate,
// save) until the last one, a request to stop or a failure, and the last finished step is saved.
#include "train/train.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/carry.h"
#include "train/device.h"
#include "train/evaluate.h"
#include "train/lora_state.h"
#include "train/ranks.h"
#include "train/schedule.h"
#include "train/stop.h"

// --- a step
// DRV_STOPPED between two micro-batches: the partial gradient is thrown away, the step is done anew
// after a resume, so the bits do not depend on when a run was stopped. Several ranks stop between
// two steps, where they agree on it.
static drv_status heed_stop(void *ctx) {
    const run *r = ctx;
    if (comm_size(r->comm) > 1 || !stop_requested()) return DRV_OK;
    return drv_fail(DRV_STOPPED, "%s", stop_requested());
}

static drv_status update(run *r, double lr, double *grad_norm, double *param_norm) {
    const run_config *cfg = r->cfg;
    const double t = (double)(r->state.updates + 1);
    const double hyper[4] = {lr, 1 - pow(cfg->betas[0], t), 1 - pow(cfg->betas[1], t),
            cfg->clip_grad_norm};
    r->weights_lost = true; // until the update is done
    DRV_TRY(stepper_update(&r->stepper, hyper, grad_norm, param_norm));
    r->weights_lost = false;
    return DRV_OK;
}

// The weights were left alone; too many such steps in a row end the run.
static drv_status count_bad_step(run *r, const step_metrics *m) {
    run_state *state = &r->state;
    const char *why =
            r->batch->counted ? "the gradient is NaN or infinite" : "there is no token to predict";
    if (!m->skipped) {
        state->updates++;
        state->bad_steps = 0;
        return DRV_OK;
    }
    state->bad_steps++;
    if (r->leads)
        log_warn("step %lld skipped: %s (loss %g, gradient norm %g); its rows: %s",
                (long long)m->step, why, m->loss, m->grad_norm, r->batch->names.p);
    if (state->bad_steps < r->cfg->max_bad_steps) return DRV_OK;
    r->together = true;
    return drv_fail(DRV_E_DATA,
            "stopped at step %lld: %lld steps in a row were skipped: %s (loss %g); rows of the last: %s",
            (long long)m->step, (long long)state->bad_steps, why, m->loss, r->batch->names.p);
}

static void fill_metrics(run *r, step_metrics *m) {
    const run_config *cfg = r->cfg;
    m->steps = cfg->steps;
    m->tokens = r->state.tokens;
    m->step_tokens = cfg->global_batch_size * cfg->sequence_length;
    m->step_samples = cfg->global_batch_size;
    m->consumed_samples = r->state.rows_taken;
    m->tokens_per_s = (double)m->step_tokens / m->step_s;
    if (r->peak_flops > 0) m->mfu = m->tokens_per_s * r->flops_per_token / r->peak_flops;
    r->mean_step_s = r->mean_step_s > 0 ? 0.9 * r->mean_step_s + 0.1 * m->step_s : m->step_s;
    m->eta_s = r->mean_step_s * (double)(cfg->steps - m->step);
}

// At each line of the log: what the steps since the last one were made of, on every rank.
static drv_status share_times(run *r, step_metrics *m) {
    rank_times *t = &r->times;
    m->times = t;
    m->shared = m->step % r->cfg->log_every == 0 || m->step == m->steps;
    if (!m->shared || comm_size(r->comm) == 1) return DRV_OK;
    DRV_TRY(rank_times_share(t));
    const rank_time *mine = &t->of[comm_rank(r->comm)];
    log_file_only("step %lld: compute %.3f s, data %.3f s, save %.3f s, waited %.3f s; slowest rank %d",
            (long long)m->step, mine->compute, mine->data, mine->save, mine->wait, t->slowest);
    return DRV_OK;
}

static drv_status train_step(run *self, step_metrics *made) {
    const run_config *cfg = self->cfg;
    run_state *state = &self->state;
    const int64_t step = state->step + 1;
    const double begin = clock_s(), waited = comm_waited(self->comm);
    const drv_status read = batch_reader_next(&self->reader, step < cfg->steps, &self->batch);
    rank_time mine = {.data = clock_s() - begin};
    DRV_TRY(ranks_together(self, read));
    DRV_TRY(comm_all_reduce(comm_update_ranks(self->comm, &self->stepper.mesh), DT_I64, COMM_SUM,
            &self->batch->counted, 1, NULL));
    const double data = clock_s();
    made->lr = schedule_lr(cfg, step);
    made->loss = made->grad_norm = made->param_norm = (double)NAN;
    self->stepper.step = step;
    if (self->batch->counted)
        DRV_TRY(stepper_gradients(&self->stepper, self->batch, heed_stop, self, &made->loss));
    const double compute = clock_s();
    if (self->saver) ckpt_wait_read(self->saver); // a checkpoint may still be reading the weights
    const double saved = clock_s();
    if (self->batch->counted) DRV_TRY(update(self, made->lr, &made->grad_norm, &made->param_norm));
    const double end = clock_s();
    made->step = state->step = step;
    made->skipped = !isfinite(made->grad_norm);
    state->rows_taken = self->batch->rows_taken;
    state->tokens += self->batch->counted;
    state->loss = made->loss;
    made->data_s = data - begin; // waited for
    made->compute_s = compute - data;
    made->save_s = saved - compute;
    made->update_s = end - saved;
    made->step_s = end - begin;
    mine.save = made->save_s;
    mine.wait = comm_waited(self->comm) - waited;
    mine.compute = made->step_s - rank_time_own(&mine) - mine.wait;
    rank_times_add(&self->times, &mine);
    fill_metrics(self, made);
    return share_times(self, made);
}

// --- around the steps
// Metrics that cannot be written (a full disk, while a checkpoint is given up and removed) do not
// end a run.
static void note_metrics(run *r, drv_status status) {
    if (status != DRV_OK && !r->metrics_failing) log_warn("metrics: %s", drv_message());
    r->metrics_failing = status != DRV_OK;
}

static bool evaluation_is_due(const run *r) {
    const run_state *state = &r->state;
    if (!r->valid_rows || state->evaluated >= state->step) return false;
    return state->step % r->cfg->eval_every == 0 || state->step == r->cfg->steps;
}

static drv_status validate(run *r) {
    double loss;
    int64_t tokens;
    comm_note(r->comm, r->state.step, "eval");
    DRV_TRY(evaluate(&r->p, r->valid_rows, evaluate_run_rows(r->cfg, r->valid_rows), r->comm, &loss,
            &tokens));
    r->state.evaluated = r->state.step;
    r->state.val_loss = loss;
    if (!r->leads) return DRV_OK;
    run_measure_peak(r);
    report_valid(r->report, r->state.step, loss, tokens);
    note_metrics(r, metrics_valid(r->metrics, r->state.step, loss, tokens));
    return DRV_OK;
}

// Small data sets are checked before the first step, large ones while the first steps run.
static drv_status wait_for_vocabulary(run *r) {
    const struct timespec pause = {0, 5000000};
    const double until = clock_s() + 2;
    if (!r->leads) return DRV_OK;
    while (!vocab_check_done(&r->vocab) && clock_s() < until && !stop_requested())
        nanosleep(&pause, NULL);
    return vocab_check_done(&r->vocab) ? vocab_check_wait(&r->vocab) : DRV_OK;
}

static drv_status one_round(run *r, bool first) {
    const run_config *cfg = r->cfg;
    step_metrics m = {0};
    DRV_TRY(train_step(r, &m));
    if (first) DRV_TRY(programs_check_held(&r->p));
    drv_status bad = count_bad_step(r, &m);
    char why[1024];
    snprintf(why, sizeof why, "%s", drv_message());
    if (r->leads) report_step(r->report, &m);
    if (r->leads) note_metrics(r, metrics_step(r->metrics, &m));
    if (bad != DRV_OK) return drv_fail(bad, "%s", why);
    if (evaluation_is_due(r)) DRV_TRY(validate(r));
    bool asked;
    const bool checked = r->leads && vocab_check_done(&r->vocab);
    DRV_TRY(ranks_agree(r, checked ? vocab_check_wait(&r->vocab) : DRV_OK, &asked));
    if (asked || (cfg->checkpoint_every > 0 && m.step % cfg->checkpoint_every == 0))
        DRV_TRY(run_start_save(r));
    return run_settle_save(r, false);
}

static drv_status loop(run *r) {
    const run_config *cfg = r->cfg;
    if (r->state.step > cfg->steps)
        log_info("nothing to do: step %lld is done, and training.steps is %lld; raise it to go on",
                (long long)r->state.step, (long long)cfg->steps);
    else if (r->state.step == cfg->steps)
        log_info("nothing to do: all %lld steps are done; raise training.steps to go on",
                (long long)cfg->steps);
    DRV_TRY(ranks_together(r, wait_for_vocabulary(r)));
    if (evaluation_is_due(r)) DRV_TRY(validate(r));
    for (bool first = true; r->state.step < cfg->steps; first = false) {
        if (comm_size(r->comm) > 1 ? r->stopping : stop_requested() != NULL)
            return drv_fail(DRV_STOPPED, "%s", stop_requested());
        DRV_TRY(one_round(r, first));
    }
    return DRV_OK;
}

// However the loop ended, its last finished step is saved, unless that is what failed.
static drv_status end(run *self, drv_status status) {
    char why[1024];
    const long long step = self->state.step;
    snprintf(why, sizeof why, "%s", drv_message());
    progress_end();
    if (status == DRV_STOPPED) log_info("%s: saving after step %lld", stop_requested(), step);
    // Asked while the last evaluation ran: all steps are done; the next start evaluates.
    if (status == DRV_STOPPED && step >= self->cfg->steps) status = DRV_OK;
    drv_status saved = DRV_OK;
    // Where one rank of several fails, the others are in the middle of a step.
    self->together |= status == DRV_OK || status == DRV_STOPPED || comm_size(self->comm) == 1;
    if (!self->weights_lost && self->failed_saves < MAX_FAILED_SAVES && self->together)
        saved = run_save_last(self);
    if (!self->leads) return status == DRV_OK ? DRV_OK : drv_fail(status, "%s", why);
    if (status == DRV_OK) {
        if (saved == DRV_OK && self->saved_step >= 0)
            report_summary(self->report, arena_printf(self->a, "%s/step-%06lld", self->checkpoints,
                                                 (long long)self->saved_step));
        return saved;
    }
    if (saved != DRV_OK) return drv_context(saved, "%s", why);
    if (status == DRV_STOPPED)
        return drv_fail(status,
                "stopped by %s after step %lld of %lld; the same command resumes it",
                stop_requested(), step, (long long)self->cfg->steps);
    if (self->saved_step < 0) return drv_fail(status, "%s", why);
    return drv_fail(status, "%s; step %lld is saved", why, (long long)self->saved_step);
}

static drv_status set_up(run *r, run_config *cfg) {
    DRV_TRY(ranks_set_up(r, cfg));
    DRV_TRY(carry_token_ids(r->a, cfg));
    return lora_resolve(r->a, cfg);
}

drv_status run_all(run *r, run_config *cfg, bool fresh) {
    DRV_TRY(ranks_together(r, set_up(r, cfg)));
    stop_listen();
    DRV_TRY(run_open(r, fresh));
    return end(r, loop(r));
}

// A failure ends all ranks, with the message of the one that it is of. What all know of, a stop or
// a failure that they agreed on, rank 0 says. It is said here, before any rank ends: from then on
// mpirun ends the others.
static drv_status leave_ranks(run *r, drv_status status, const char *message) {
    bool mine = r->leads || status == DRV_E_PEER;
    if (status != DRV_OK && (!r->together || status == DRV_E_PEER)) {
        drv_fail(status, "%s", message);
        mine = comm_abort(r->comm, status);
    }
    const bool alone = comm_size(r->comm) == 1;
    if (status != DRV_OK && mine && *message && !alone) {
        log_failure(message);
        comm_said(r->comm);
    }
    comm_close(r->comm);
    return status == DRV_OK ? DRV_OK : drv_fail(status, "%s", alone ? message : "");
}

drv_status train_refuse(arena *a, drv_status status) {
    char message[2048];
    run r = {.a = a};
    snprintf(message, sizeof message, "%s", drv_message());
    if (comm_launched() == 1 || comm_open(a, NULL, &r.comm) != DRV_OK)
        return drv_fail(status, "%s", message);
    r.leads = comm_rank(r.comm) == 0;
    drv_fail(status, "%s", message);
    status = ranks_together(&r, status);
    snprintf(message, sizeof message, "%s", drv_message());
    return leave_ranks(&r, status, message);
}

// Devices of several processes are not joined yet (docs/adr/0017).
static drv_status check_processes(const run_config *cfg) {
    if (strcmp(cfg->backend, "pjrt") != 0 || comm_launched() == 1) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: %d processes were started with backend pjrt, expected one, which shares a run among "
            "the devices of its machine (pjrt.devices)",
            config_where(cfg, "backend"), comm_launched());
}

drv_status train(arena *a, const run_config *config, bool fresh) {
    run_config cfg = *config;
    run r = {.a = a, .cfg = &cfg, .saved_step = -1, .saving_step = -1};
    char message[2048];
    const int n_devices = device_count(config);
    const drv_status processes = check_processes(config);
    if (processes != DRV_OK) return train_refuse(a, processes);
    if (n_devices > 1) return run_on_devices(config, n_devices, fresh);
    DRV_TRY(comm_open(a, NULL, &r.comm));
    r.leads = comm_rank(r.comm) == 0;
    const drv_status status = run_all(&r, &cfg, fresh);
    snprintf(message, sizeof message, "%s", drv_message());
    run_close(&r);
    return leave_ranks(&r, status, message);
}
