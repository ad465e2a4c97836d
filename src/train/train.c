// The loop, the page to read first: open, resume, then steps of (micro-batches, update, report,
// evaluate, save).
#include "train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/round.h"
#include "train/batch.h"
#include "train/fit.h"
#include "train/metrics.h"
#include "train/report.h"
#include "train/schedule.h"
#include "tok/tokenizer.h"
#include "train/state.h"

typedef struct run {
    arena *a;
    const run_config *c;
    backend *b;
    programs p;
    rows *train_rows, *valid_rows; // valid_rows NULL: no evaluation
    batch batch;
    run_state state;
    metrics *metrics;
    report *report;
    ckpt_saver *saver;
    ckpt_content content; // what the saver writes
    const char *checkpoints;
    char *config_json;
    int lock;
    int64_t saved_step;
    double peak_flops, mean_step_s;
} run;

static volatile sig_atomic_t stop_signal;

static void on_signal(int s) {
    stop_signal = s;
    signal(s, SIG_DFL); // a second one ends the process
}

// --- opening
static drv_status open_run_dir(run *r) {
    const run_config *c = r->c;
    r->checkpoints = path_join(r->a, c->run_dir, "checkpoints");
    DRV_TRY(dir_make(r->checkpoints));
    char *lock = path_join(r->a, c->run_dir, ".lock");
    r->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->lock < 0)
        return drv_fail(DRV_E_IO, "could not create \"%s\": %s", lock, strerror(errno));
    if (flock(r->lock, LOCK_EX | LOCK_NB) != 0)
        return drv_fail(DRV_E_IO, "run directory \"%s\" is in use by another drover", c->run_dir);
    DRV_TRY(log_open_file(path_join(r->a, c->run_dir, "log.txt")));
    str yaml = {0};
    config_print(c, false, &yaml);
    drv_status s = file_write_atomic(path_join(r->a, c->run_dir, "config.yaml"), yaml.p, yaml.n);
    str_free(&yaml);
    return s;
}

static drv_status open_data(run *r) {
    const run_config *c = r->c;
    if (c->n_train == 0)
        return drv_fail(DRV_E_USAGE,
                "%s: no data.train; expected the prefix of a .bin/.idx data set",
                c->file ? c->file : "configuration");
    DRV_TRY(batch_open_rows(r->a, c, true, &r->train_rows));
    const bool has_valid = c->n_valid > 0 || c->split[1] > 0;
    if (has_valid && c->eval_every > 0) DRV_TRY(batch_open_rows(r->a, c, false, &r->valid_rows));
    r->batch = batch_new(r->a, c->global_batch_size, c->sequence_length);
    return DRV_OK;
}

static drv_status open_weights(run *r) {
    const run_config *c = r->c;
    const char *from;
    DRV_TRY(ckpt_clean(r->checkpoints));
    DRV_TRY(ckpt_newest(r->a, r->checkpoints, &from));
    if (from) {
        DRV_TRY_CTX(state_load(&r->p, from, &r->state), "resume from \"%s\"", from);
        rows_seek(r->train_rows, r->state.rows_taken);
        r->saved_step = r->state.step;
        log_info("resumed from %s: step %lld, %lld rows and %s tokens seen", from,
                (long long)r->state.step, (long long)r->state.rows_taken,
                str_si((double)r->state.tokens));
        return DRV_OK;
    }
    r->saved_step = -1;
    if (config_loads_weights(c)) {
        DRV_TRY_CTX(state_load_weights(&r->p, c->from), "weights");
        log_info("weights from %s", c->from);
        return DRV_OK;
    }
    return programs_init_weights(&r->p);
}

// The machine may have been busy when the peak was measured: it is looked at again now and then.
static void measure_peak(run *r) {
    const double now = backend_peak_flops(r->b);
    if (now > r->peak_flops) r->peak_flops = now;
}

// The model takes the tokenizer's end of text when it has none of its own, so that what loads the
// checkpoint knows where to stop; a tokenizer with more tokens than the model is refused early.
static drv_status adopt_tokenizer(arena *a, run_config *c) {
    tokenizer *t;
    model_config *m = &c->model;
    if (!*c->tokenizer) return DRV_OK;
    DRV_TRY(tokenizer_open(a, c->tokenizer, &t));
    const int32_t n_vocab = tokenizer_n_vocab(t);
    if (m->n_eos == 0 && tokenizer_eos(t) >= 0) m->eos_token_id[m->n_eos++] = tokenizer_eos(t);
    if (m->bos_token_id < 0) m->bos_token_id = tokenizer_bos(t);
    tokenizer_close(t);
    if (n_vocab > m->vocab_size)
        return drv_fail(DRV_E_USAGE,
                "tokenizer \"%s\" has %d tokens, more than model.vocab_size %lld", c->tokenizer,
                n_vocab, (long long)m->vocab_size);
    return DRV_OK;
}

static drv_status open_run(run *r) {
    const run_config *c = r->c;
    if (c->data_parallel > 1)
        return drv_fail(DRV_E_USAGE,
                "parallel.data is %lld, expected 1: training uses one rank so far",
                (long long)c->data_parallel);
    const memory_limit limit = memory_limit_read("");
    DRV_TRY(fit_check(c, &limit));
    DRV_TRY(open_run_dir(r));
    DRV_TRY(open_data(r));
    DRV_TRY(backend_open(r->a, c->backend, &r->b));
    DRV_TRY(programs_build(r->a, c, &r->p));
    DRV_TRY(programs_load(r->a, r->b, &r->p));
    DRV_TRY(programs_check_held(&r->p));
    DRV_TRY(open_weights(r));
    DRV_TRY(metrics_open(r->a, c->run_dir, r->state.step, &r->metrics));
    r->report = report_new(r->a, c->run_dir, c->file, c->log_every);
    json_t *config = model_config_json(&c->model);
    r->config_json = json_dumps(config, JSON_INDENT(2));
    json_decref(config);
    measure_peak(r);
    memory_plan m = programs_memory(&r->p);
    log_info("%s parameters, %s, %s of memory planned; data: %lld rows of %lld tokens an epoch",
            str_si((double)model_parameters(&c->model)),
            c->precision == PRECISION_BF16 ? "bf16" : "fp32", str_bytes((double)m.total),
            (long long)rows_per_epoch(r->train_rows), (long long)c->sequence_length);
    return DRV_OK;
}

// --- a step
static drv_status forward_backward(run *r, double *loss) {
    const run_config *c = r->c;
    backend *b = r->b;
    // Normalised by the counted tokens of the global batch, whatever the micro-batches.
    const double dloss = r->batch.counted ? 1 / (double)r->batch.counted : 0;
    double sum = 0;
    for (int rank = 0; rank < b->n_local_ranks; rank++)
        DRV_TRY(backend_write(b, rank, "dloss", 0, sizeof dloss, &dloss));
    for (int64_t i = 0; i < c->global_batch_size / c->micro_batch_size; i++) {
        double part;
        DRV_TRY(batch_write(&r->batch, &r->p, i));
        DRV_TRY(backend_run(b, r->p.step));
        DRV_TRY(backend_read(b, 0, "loss", 0, sizeof part, &part));
        sum += part;
    }
    *loss = sum * dloss;
    return DRV_OK;
}

static drv_status update(run *r, double lr, double *grad_norm, double *param_norm) {
    const run_config *c = r->c;
    backend *b = r->b;
    const double t = (double)(r->state.updates + 1);
    const double hyper[4] = {lr, 1 - pow(c->betas[0], t), 1 - pow(c->betas[1], t),
            c->clip_grad_norm};
    for (int rank = 0; rank < b->n_local_ranks; rank++)
        DRV_TRY(backend_write(b, rank, "hyper", 0, sizeof hyper, hyper));
    DRV_TRY(backend_run(b, r->p.update));
    DRV_TRY(backend_read(b, 0, "grad_norm2", 0, sizeof *grad_norm, grad_norm));
    DRV_TRY(backend_read(b, 0, "param_norm2", 0, sizeof *param_norm, param_norm));
    *grad_norm = sqrt(*grad_norm);
    *param_norm = sqrt(*param_norm);
    return DRV_OK;
}

// The update program has left the weights alone; too many such steps in a row end the run.
static drv_status count_bad_step(run *r, const step_metrics *m) {
    run_state *s = &r->state;
    if (isfinite(m->grad_norm)) {
        s->updates++;
        s->bad_steps = 0;
        return DRV_OK;
    }
    s->bad_steps++;
    log_warn("step %lld skipped: loss %g, gradient norm %g; its rows: %s", (long long)m->step,
            m->loss, m->grad_norm, r->batch.names.p);
    if (s->bad_steps < r->c->max_bad_steps) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "stopped at step %lld: %lld steps in a row had a NaN or infinite gradient (loss %g); "
            "rows of the last: %s",
            (long long)m->step, (long long)s->bad_steps, m->loss, r->batch.names.p);
}

static drv_status train_step(run *r, step_metrics *m) {
    const run_config *c = r->c;
    const double begin = clock_s();
    DRV_TRY(batch_fill(&r->batch, r->train_rows));
    const double data = clock_s();
    DRV_TRY(forward_backward(r, &m->loss));
    const double compute = clock_s();
    if (r->saver)
        DRV_TRY(ckpt_wait_read(r->saver)); // a checkpoint may still be reading the weights
    const double saved = clock_s();
    m->step = ++r->state.step;
    m->lr = schedule_lr(c, m->step);
    DRV_TRY(update(r, m->lr, &m->grad_norm, &m->param_norm));
    const double end = clock_s();
    m->skipped = !isfinite(m->grad_norm);
    r->state.rows_taken = rows_taken(r->train_rows);
    r->state.tokens += r->batch.counted;
    const double tokens = (double)(c->global_batch_size * c->sequence_length);
    m->steps = c->steps;
    m->tokens = r->state.tokens;
    m->step_tokens = r->batch.counted;
    m->step_samples = c->global_batch_size;
    m->consumed_samples = r->state.rows_taken;
    m->data_s = data - begin;
    m->compute_s = compute - data;
    m->save_s = saved - compute;
    m->update_s = end - saved;
    m->step_s = end - begin;
    m->tokens_per_s = tokens / m->step_s;
    if (r->peak_flops > 0)
        m->mfu = m->tokens_per_s * model_flops_per_token(&c->model, c->sequence_length) /
                 r->peak_flops;
    r->mean_step_s = r->mean_step_s > 0 ? 0.9 * r->mean_step_s + 0.1 * m->step_s : m->step_s;
    m->eta_s = r->mean_step_s * (double)(c->steps - m->step);
    return DRV_OK;
}

// --- around the steps
static drv_status validate(run *r) {
    double loss;
    int64_t tokens;
    arena *a = arena_new("validate");
    const run_config *c = r->c;
    int64_t batches = c->eval_batches;
    if (batches == 0) batches = div_up(EVAL_TOKENS, c->global_batch_size * c->sequence_length);
    batches *= c->global_batch_size / c->micro_batch_size;
    drv_status s = evaluate(a, &r->p, r->valid_rows, batches, &loss, &tokens);
    arena_free(a);
    DRV_TRY(s);
    measure_peak(r);
    report_valid(r->report, r->state.step, loss, tokens);
    return metrics_valid(r->metrics, r->state.step, loss, tokens);
}

static drv_status read_state(void *ctx, const char *source, int64_t offset, int64_t bytes,
        void *dst) {
    backend *b = ctx;
    return backend_read(b, 0, source, offset, bytes, dst);
}

static drv_status start_save(run *r) {
    if (!r->saver) {
        r->saver = ckpt_saver_new(r->checkpoints, r->c->checkpoint_keep, read_state, r->b);
        r->content.config_json = r->config_json;
        r->content.tokenizer = r->c->tokenizer;
        r->content.model = state_model(r->a, &r->p, &r->content.n_model);
        r->content.optimizer = state_optimizer(r->a, &r->p, &r->content.n_optimizer);
    }
    char *json = state_json(r->c, &r->state);
    r->content.trainer_json = json;
    r->saved_step = r->state.step;
    drv_status s = ckpt_start(r->saver, r->state.step, &r->content);
    free(json);
    return s;
}

static drv_status loop(run *r) {
    const run_config *c = r->c;
    const int64_t first_step = r->state.step + 1;
    bool bad = false;
    drv_status s = DRV_OK;
    if (r->state.step >= c->steps)
        log_info("nothing to do: step %lld of %lld is done; raise training.steps to go on",
                (long long)r->state.step, (long long)c->steps);
    if (r->valid_rows && r->state.step == 0) DRV_TRY(validate(r));
    while (r->state.step < c->steps && !stop_signal && !bad) {
        step_metrics m = {0};
        DRV_TRY(train_step(r, &m));
        if (m.step == first_step) DRV_TRY(programs_check_held(&r->p));
        s = count_bad_step(r, &m);
        bad = s != DRV_OK;
        report_step(r->report, &m);
        DRV_TRY(metrics_step(r->metrics, &m));
        if (bad) break;
        if (r->valid_rows && (m.step % c->eval_every == 0 || m.step == c->steps))
            DRV_TRY(validate(r));
        if (c->checkpoint_every > 0 && m.step % c->checkpoint_every == 0) DRV_TRY(start_save(r));
    }
    progress_end();
    if (bad) return s;
    if (stop_signal)
        log_info("signal %d: saving after step %lld", (int)stop_signal, (long long)r->state.step);
    if (r->state.step > r->saved_step) DRV_TRY(start_save(r));
    if (r->saver) DRV_TRY(ckpt_wait(r->saver));
    report_summary(r->report,
            arena_printf(r->a, "%s/step-%06lld", r->checkpoints, (long long)r->state.step),
            *c->tokenizer);
    return DRV_OK;
}

static void close_run(run *r) {
    ckpt_saver_free(r->saver);
    metrics_close(r->metrics);
    if (r->train_rows) rows_close(r->train_rows);
    if (r->valid_rows) rows_close(r->valid_rows);
    if (r->b) backend_close(r->b);
    str_free(&r->batch.names);
    free(r->config_json);
    if (r->lock > 0) close(r->lock);
}

drv_status train(arena *a, const run_config *config) {
    run_config c = *config;
    run r = {.a = a, .c = &c};
    DRV_TRY(adopt_tokenizer(a, &c));
    par_set_threads((int)c.threads);
    stop_signal = 0;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    drv_status s = open_run(&r);
    if (s == DRV_OK) s = loop(&r);
    char message[2048];
    snprintf(message, sizeof message, "%s", drv_message());
    close_run(&r);
    return s == DRV_OK ? s : drv_fail(s, "%s", message);
}
