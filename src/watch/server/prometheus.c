// Writes metrics for Prometheus. A number that is not known has no line; one that is not finite is
// NaN.
#include "watch/server/prometheus.h"

#include <math.h>
#include <stddef.h>

#include "base/status_line.h"

// Appends the value of a label: control characters and invalid UTF-8 become "?", backslashes and
// quotes are escaped.
static void add_label(str *out, const char *text) {
    str clean = {0};
    text_add_clean(&clean, text, false);
    for (const char *p = clean.p ? clean.p : ""; *p; p++) {
        if (*p == '\\' || *p == '"') str_puts(out, "\\");
        str_add(out, p, 1);
    }
    str_free(&clean);
}

// --- lines
static void head(str *out, const char *name, const char *type, const char *help) {
    str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void value(str *out, double x) {
    if (isnan(x))
        str_puts(out, " NaN\n");
    else if (isinf(x))
        str_puts(out, x > 0 ? " +Inf\n" : " -Inf\n");
    else
        str_printf(out, " %.15g\n", x);
}

static void one(str *out, const char *name, const char *type, const char *help, double x) {
    head(out, name, type, help);
    str_puts(out, name);
    value(out, x);
}

static void known(str *out, const char *name, const char *help, double x) {
    if (!isnan(x)) one(out, name, "gauge", help, x);
}

// --- steps
static void add_steps(const watched_run *run, str *out) {
    const step_histogram *steps = &run->steps;
    int64_t up_to = 0;
    head(out, "drover_step_seconds", "histogram", "Length of the steps of this run.");
    for (int i = 0; i < N_STEP_BOUNDS; i++) {
        up_to += steps->counts[i];
        str_printf(out, "drover_step_seconds_bucket{le=\"%g\"} %lld\n", step_histogram_bound(i),
                (long long)up_to);
    }
    str_printf(out,
            "drover_step_seconds_bucket{le=\"+Inf\"} %lld\ndrover_step_seconds_sum %.15g\n"
            "drover_step_seconds_count %lld\n",
            (long long)steps->n, steps->sum_s, (long long)steps->n);
    one(out, "drover_skipped_steps_total", "counter",
            "Steps that changed nothing, since their gradient was not finite.",
            (double)run->n_skipped);
    const watched_step *last = &run->last;
    if (last->step < 0) return;
    one(out, "drover_step", "gauge", "The last step that is done.", (double)last->step);
    one(out, "drover_loss", "gauge", "Training loss of the last step, in nats a token.",
            last->loss);
    one(out, "drover_gradient_norm", "gauge", "Norm of the gradient of the last step.",
            last->grad_norm);
    known(out, "drover_validation_loss", "Loss of the last evaluation, in nats a token.",
            last->val_loss);
    known(out, "drover_learning_rate", "Learning rate of the last step.", last->lr);
    known(out, "drover_tokens_per_second", "Speed of the last step.", last->tokens_per_s);
    known(out, "drover_mfu_ratio", "Arithmetic that the model needs over the peak of the machine.",
            last->mfu);
    if (!isnan(last->tokens))
        one(out, "drover_tokens_total", "counter", "Tokens that were learned.", last->tokens);
}

// --- the run
static int64_t count_stragglers(const watched_run *run) {
    int64_t open = 0;
    for (int64_t i = 0; i < run->events.n; i++) {
        const run_event_kind kind = run->events.events[i].kind;
        if (kind == EVENT_START) open = 0;
        if (kind == EVENT_STRAGGLER) open++;
        if (kind == EVENT_STRAGGLER_OVER && open > 0) open--;
    }
    return open;
}

static void add_checkpoints(const watched_run *run, const prometheus_opts *opts, str *out) {
    const run_event *saved = NULL;
    for (int64_t i = 0; i < run->events.n; i++)
        if (run->events.events[i].kind == EVENT_SAVE) saved = &run->events.events[i];
    if (opts->save_every > 0)
        one(out, "drover_checkpoint_interval_steps", "gauge", "Steps between checkpoints.",
                (double)opts->save_every);
    if (!saved) return;
    one(out, "drover_checkpoint_last_success_timestamp_seconds", "gauge",
            "When the last checkpoint was in place, since 1970.", saved->time);
    one(out, "drover_checkpoint_last_success_step", "gauge", "Step of the last checkpoint.",
            (double)run_event_i64(saved, "step", 0));
}

static void add_journal(const watched_run *run, str *out) {
    const ledger_sums *sums = &run->sums;
    known(out, "drover_goodput_ratio",
            "Compute, communication and bubble of steps that count, over the wall time without stops that "
            "were asked for.",
            sums->goodput);
    head(out, "drover_wall_seconds", "gauge", "Wall time of the run over all attempts, by use.");
    for (int i = 0; i < N_LEDGER_CLASSES; i++)
        str_printf(out, "drover_wall_seconds{use=\"%s\"} %.15g\n", ledger_key((ledger_class)i),
                sums->seconds[i]);
    one(out, "drover_restarts_total", "counter", "Attempts of this run after the first.",
            sums->n_attempts > 0 ? sums->n_attempts - 1 : 0);
    one(out, "drover_lost_steps_total", "counter", "Steps that a later attempt did again.",
            (double)sums->n_lost_steps);
    one(out, "drover_straggler_ranks", "gauge", "Ranks or hosts that are slower than the others.",
            (double)count_stragglers(run));
}

static void add_status(const watched_run *run, str *out) {
    head(out, "drover_run_info", "gauge", "The run: its directory, state and first host.");
    str_puts(out, "drover_run_info{directory=\"");
    add_label(out, run->dir);
    str_puts(out, "\",state=\"");
    add_label(out, watched_run_state(run));
    str_puts(out, "\",host=\"");
    add_label(out, run->has_status && run->status.host ? run->status.host : "");
    str_puts(out, "\"} 1\n");
    if (!run->has_status) return;
    one(out, "drover_steps", "gauge", "Steps of the whole run.", (double)run->status.steps);
    known(out, "drover_remaining_seconds", "Expected time to its end.", run->status.eta_s);
    one(out, "drover_ranks", "gauge", "Ranks of the run.", (double)run->status.ranks);
}

// --- ranks
static void add_ranks(const rank_table *table, str *out) {
    static const struct {
        const char *name, *help;
        size_t offset; // of a double in rank_row
    } figures[] = {{"drover_rank_compute_seconds", "Computing in the rank's last step.",
                           offsetof(rank_row, compute_s)},
            {"drover_rank_wait_seconds", "Waiting for messages of other ranks in the last step.",
                    offsetof(rank_row, wait_s)},
            {"drover_rank_data_seconds", "Waiting for rows in the last step.",
                    offsetof(rank_row, data_s)},
            {"drover_rank_save_seconds", "Waiting for a checkpoint in the last step.",
                    offsetof(rank_row, save_s)}};
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
        head(out, figures[k].name, "gauge", figures[k].help);
        for (int i = 0; i < table->n; i++) {
            if (!table->rows[i].known) continue;
            str_printf(out, "%s{rank=\"%d\"}", figures[k].name, i);
            value(out, *(const double *)((const char *)&table->rows[i] + figures[k].offset));
        }
    }
    head(out, "drover_rank_resident_bytes", "gauge", "Memory that the rank holds.");
    for (int i = 0; i < table->n; i++)
        if (table->rows[i].known)
            str_printf(out, "drover_rank_resident_bytes{rank=\"%d\"} %lld\n", i,
                    (long long)table->rows[i].resident);
}

void prometheus_add(const watched_run *run, const prometheus_opts *opts, str *out) {
    add_status(run, out);
    add_steps(run, out);
    add_journal(run, out);
    add_checkpoints(run, opts, out);
    if (opts->ranks && run->table.n > 0) add_ranks(&run->table, out);
}
