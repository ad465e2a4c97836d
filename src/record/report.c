// Prints a run for a person: status line, steps, evaluations, summary.
#include "record/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spark.h"
#include "record/model_hint.h"

enum { SPARK_COLUMNS = 24, TEXT = 96, FEW_TOKENS = 1000 };

struct report {
    const char *run_dir, *config;
    int64_t log_every;
    step_metrics first, last; // of this process; first.steps is 0 before the first step
    int64_t tokens;           // in the rows of its steps, with or without a loss
    double begin_s;           // when the first step began
    spark losses;
    double first_valid, last_valid; // NaN: no evaluation yet
};

report *report_new(arena *a, const char *run_dir, const char *config, int64_t log_every) {
    report *r = ARENA_NEW(a, report);
    *r = (report){.run_dir = run_dir,
            .config = config,
            .log_every = log_every,
            .first_valid = (double)NAN,
            .last_valid = (double)NAN};
    return r;
}

// --- steps
// The fields of a step's line, in order; their ranks say which a narrow terminal drops first.
typedef struct step_line {
    char step[TEXT], loss[TEXT], lr[TEXT], norm[TEXT], speed[TEXT], mfu[TEXT], eta[TEXT],
            slow[TEXT], pairs[TEXT];
    log_field fields[11];
    int n;
} step_line;

// Writes "slowest rank 3 (compute 1.204 s)": the rank that the others wait for, and why.
static void fill_slowest(char *text, const rank_times *t) {
    *text = 0;
    if (t->n == 0) return;
    const rank_time *of = &t->of[t->slowest];
    const double seconds = strcmp(t->reason, "data") == 0   ? of->data
                           : strcmp(t->reason, "save") == 0 ? of->save
                           : strcmp(t->reason, "wait") == 0 ? of->wait
                                                            : of->compute;
    snprintf(text, TEXT, "slowest rank %d (%s %.3f s)", t->slowest, t->reason, seconds);
}

// Writes "margin 0.0412 (0.0310 - -0.0102)  accuracy 62.5%".
static void fill_pairs(char *text, const pair_figures *pairs) {
    snprintf(text, TEXT, "margin %.4f (%.4f - %.4f)  accuracy %.1f%%",
            pairs->chosen - pairs->rejected, pairs->chosen, pairs->rejected, 100 * pairs->accuracy);
}

static void fill_line(step_line *line, const step_metrics *m) {
    snprintf(line->step, TEXT, "step %lld/%lld", (long long)m->step, (long long)m->steps);
    snprintf(line->loss, TEXT, "loss %.4f", m->loss);
    snprintf(line->lr, TEXT, "lr %.3g", m->lr);
    snprintf(line->norm, TEXT, "grad norm %.3f", m->grad_norm);
    snprintf(line->speed, TEXT, "%.0f tokens/s", m->tokens_per_s);
    snprintf(line->mfu, TEXT, "mfu %.1f%%", 100 * m->mfu);
    snprintf(line->eta, TEXT, "eta %s", str_duration(m->eta_s));
    fill_slowest(line->slow, m->times);
    *line->pairs = 0;
    if (m->n_pairs) fill_pairs(line->pairs, &m->pairs);
    const log_field all[] = {{line->step, 0}, {line->loss, 0}, {m->skipped ? "skipped" : "", 0},
            {line->pairs, 1}, {line->lr, 4}, {line->norm, 5}, {line->speed, 2},
            {m->mfu > 0 ? line->mfu : "", 3}, {line->eta, 1}, {line->slow, 3}};
    line->n = sizeof all / sizeof *all;
    for (int i = 0; i < line->n; i++)
        line->fields[i] = all[i];
}

void report_step(report *r, const step_metrics *m) {
    if (r->first.steps == 0) {
        r->first = *m;
        r->begin_s = clock_s() - m->step_s;
        log_info("first step %.2f s after the start of the process", clock_process_s());
    }
    r->last = *m;
    r->tokens += m->step_tokens;
    spark_add(&r->losses, m->loss);
    step_line line;
    fill_line(&line, m);
    if (log_is_terminal()) {
        str bars = {0};
        spark_draw(&r->losses, SPARK_COLUMNS, log_is_utf8(), &bars);
        line.fields[line.n] = (log_field){bars.p ? bars.p : "", 6};
        progress_fields(line.fields, line.n + 1);
        str_free(&bars);
    }
    if (m->step % r->log_every == 0 || m->step == m->steps) log_fields(line.fields, line.n);
}

void report_valid(report *r, int64_t step, const evaluation_result *result) {
    const long long tokens = result->tokens, n_pairs = result->n_pairs;
    if (isnan(r->first_valid)) {
        r->first_valid = result->loss;
        if (tokens < FEW_TOKENS)
            log_warn("only %lld token%s to validate on, so the loss is not reliable: increase the share in data.split, or give data.valid",
                    tokens, str_plural(tokens));
    }
    r->last_valid = result->loss;
    char text[4][TEXT];
    snprintf(text[0], TEXT, "step %lld", (long long)step);
    snprintf(text[1], TEXT, "validation loss %.4f", result->loss);
    snprintf(text[2], TEXT, "perplexity %.2f", exp(result->loss));
    snprintf(text[3], TEXT, "(%lld token%s)", tokens, str_plural(tokens));
    if (n_pairs) fill_pairs(text[2], &result->pairs);
    if (n_pairs) snprintf(text[3], TEXT, "(%lld pair%s)", n_pairs, str_plural(n_pairs));
    log_fields((log_field[]){{text[0], 0}, {text[1], 0}, {text[2], 1}, {text[3], 2}}, 4);
}

// --- the end
void report_summary(report *self, const char *model) {
    const step_metrics *step = &self->last;
    if (self->first.steps == 0) { // no step was left to do
        log_info("model: %s", model);
        return;
    }
    const double seconds = clock_s() - self->begin_s, tokens = (double)self->tokens;
    log_info("%s: step %lld of %lld, %s tokens in %s, %.0f tokens/s",
            step->step < step->steps ? "stopped" : "done", (long long)step->step,
            (long long)step->steps, str_si(tokens), str_long_duration(seconds), tokens / seconds);
    str bars = {0};
    spark_draw(&self->losses, SPARK_COLUMNS, log_is_utf8(), &bars);
    if (step->step > self->first.step)
        log_info("loss %.4f at step %lld, %.4f at step %lld  %s", self->first.loss,
                (long long)self->first.step, step->loss, (long long)step->step,
                bars.p ? bars.p : "");
    else
        log_info("loss %.4f", step->loss);
    str_free(&bars);
    if (!isnan(self->last_valid))
        log_info("validation loss: first %.4f, last %.4f", self->first_valid, self->last_valid);
    log_info("model: %s", model);
    str command = {0};
    model_hint(model, &command);
    if (command.n > 0) log_info("try it: %s", command.p);
    str_clear(&command);
    str_add_shell(&command, self->run_dir);
    log_info("curves: drover plot %s", command.p);
    str_clear(&command);
    if (self->config) str_add_shell(&command, self->config);
    if (step->step < step->steps && self->config) log_info("resume: drover train %s", command.p);
    str_free(&command);
}
