// Makes the tables of a report.
#include "watch/views/report_tables.h"

#include <math.h>
#include <string.h>

enum { MAX_STRAGGLERS = 40 };

static void add_row(arena *a, report_table *table, const char *const *cells) {
    ARENA_GROW(a, table->rows, table->n, table->cap);
    for (int i = 0; i < table->columns; i++)
        table->rows[table->n][i] = cells[i];
    table->n++;
}

static void add_pair(arena *a, report_table *table, const char *name, const char *value) {
    const char *cells[] = {name, value};
    add_row(a, table, cells);
}

static const char *number(arena *a, double x, int decimals, const char *unit) {
    return isfinite(x) ? arena_printf(a, "%.*f%s", decimals, x, unit) : "-";
}

static const char *bytes(arena *a, double x) {
    return x > 0 && isfinite(x) ? arena_strdup(a, str_bytes(x)) : "-";
}

static const run_event *newest(const watched_run *run, run_event_kind kind) {
    for (int64_t i = run->events.n - 1; i >= 0; i--)
        if (run->events.events[i].kind == kind) return &run->events.events[i];
    return NULL;
}

static double mean_of(const plot_series *s) {
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++)
        sum += s->y[i];
    return s->n ? sum / (double)s->n : (double)NAN;
}

// Returns the seconds of all steps that count, including saves and waits for rows.
static double step_seconds(const watched_run *run) {
    const double *of = run->sums.seconds;
    return of[LEDGER_COMPUTE] + of[LEDGER_COMMUNICATION] + of[LEDGER_BUBBLE] + of[LEDGER_DATA] +
           of[LEDGER_SAVE];
}

static double mean_step(const watched_run *run) {
    return run->sums.n_steps ? step_seconds(run) / (double)run->sums.n_steps : (double)NAN;
}

static int64_t ranks_of(const watched_run *run) {
    const run_event *start = newest(run, EVENT_START);
    if (run->has_status && run->status.ranks > 0) return run->status.ranks;
    return start ? run_event_i64(start, "ranks", 1) : run->table.n > 0 ? run->table.n : 1;
}

// --- results
static report_table make_results(arena *a, const watched_run *run) {
    report_table table = {.title = "Loss and speed", .columns = 2};
    const plot_series *loss = &run->curves[CURVE_LOSS], *valid = &run->curves[CURVE_VALID];
    if (loss->n)
        add_pair(a, &table, "loss",
                arena_printf(a, "%.4f at step %.0f, %s at step %lld", loss->y[0], loss->x[0],
                        number(a, run->last.loss, 4, ""), (long long)run->last.step));
    if (valid->n)
        add_pair(a, &table, "validation loss",
                arena_printf(a, "%.4f at step %.0f, %s at last", valid->y[0], valid->x[0],
                        number(a, run->last.val_loss, 4, "")));
    if (run->curves[CURVE_TOKENS_PER_S].n)
        add_pair(a, &table, "tokens/s",
                arena_printf(a, "%.0f, mean of steps", mean_of(&run->curves[CURVE_TOKENS_PER_S])));
    if (run->curves[CURVE_MFU].n)
        add_pair(a, &table, "mfu",
                arena_printf(a, "%.1f %%, mean of steps", 100 * mean_of(&run->curves[CURVE_MFU])));
    return table;
}

// --- plan and measurement
static void add_planned(arena *a, report_table *table, const char *name, const char *plan,
        const char *measured) {
    const char *cells[] = {name, plan, measured};
    add_row(a, table, cells);
}

static report_table make_plan(arena *a, const watched_run *run, const report_facts *facts) {
    report_table table = {.title = "Plan and measurement", .columns = 3, .has_head = true};
    double held = 0, planned = facts->rank_bytes, sent = 0;
    if (!run->table.n && !run->sums.n_steps) return table;
    for (int i = 0; i < run->table.n; i++) {
        const rank_row *rank = &run->table.rows[i];
        held = fmax(held, (double)(rank->device ? rank->device : rank->resident));
        sent = fmax(sent, (double)rank->sent);
        if (!(facts->rank_bytes > 0)) planned = fmax(planned, (double)rank->planned);
    }
    const double all = step_seconds(run);
    const double *of = run->sums.seconds;
    add_planned(a, &table, "", "plan", "measured");
    add_planned(a, &table, "memory of the rank with most, its process included", bytes(a, planned),
            bytes(a, held));
    add_planned(a, &table, "sent in a step by the rank that sends most",
            bytes(a, facts->sent_bytes), bytes(a, sent));
    add_planned(a, &table, "pipeline bubble, share of the steps",
            number(a, 100 * facts->bubble, 1, " %"),
            number(a, all > 0 ? 100 * of[LEDGER_BUBBLE] / all : (double)NAN, 1, " %"));
    add_planned(a, &table, "waiting for messages, the bubble included, share of the steps", "-",
            number(a,
                    all > 0 ? 100 * (of[LEDGER_BUBBLE] + of[LEDGER_COMMUNICATION]) / all
                            : (double)NAN,
                    1, " %"));
    return table;
}

static report_table make_terms(arena *a, const watched_run *run) {
    report_table table = {.title = "Time of a step by terms", .columns = 4, .has_head = true};
    const term_pair *pairs;
    const char *device;
    const int n = watched_terms_pairs(a, &run->terms, &run->events, &pairs, &device);
    const char *head[] = {"", "plan", "measured", "ratio"}, *words;
    if (n) add_row(a, &table, head);
    for (int i = 0; i < n; i++) {
        const term_pair *p = &pairs[i];
        if (!(p->planned_s > 0) && !(p->measured_s > 0)) continue;
        const char *cells[] = {i == n - 1 ? "step time" : p->name, number(a, p->planned_s, 4, " s"),
                number(a, p->measured_s, 4, " s"), number(a, p->measured_s / p->planned_s, 2, "")};
        add_row(a, &table, cells);
    }
    words = watched_terms_text(a, pairs, n);
    if (*words)
        table.title = arena_printf(a, "%s (planned for %s: %s)", table.title, device, words);
    return table;
}

// --- stragglers
// Returns the step at which a rank stopped being a straggler; -1: not in its attempt.
static int64_t over_at(const run_event_list *events, int64_t from) {
    const run_event *begin = &events->events[from];
    for (int64_t i = from + 1; i < events->n; i++) {
        const run_event *e = &events->events[i];
        if (e->attempt != begin->attempt) break;
        const bool host = json_is_true(json_object_get(e->fields, "hosts_all"));
        if (e->kind != EVENT_STRAGGLER_OVER ||
                host != json_is_true(json_object_get(begin->fields, "hosts_all")))
            continue;
        if (host ? strcmp(run_event_text(e, "host"), run_event_text(begin, "host")) == 0
                 : run_event_i64(e, "rank", -1) == run_event_i64(begin, "rank", -2))
            return run_event_i64(e, "step", -1);
    }
    return -1;
}

static report_table make_stragglers(arena *a, const watched_run *run) {
    report_table table = {.title = "Stragglers", .columns = 2};
    int64_t left_out = 0;
    for (int64_t i = 0; i < run->events.n; i++) {
        const run_event *e = &run->events.events[i];
        if (e->kind != EVENT_STRAGGLER) continue;
        if (table.n == MAX_STRAGGLERS) {
            left_out++;
            continue;
        }
        const int64_t over = over_at(&run->events, i);
        const bool host = json_is_true(json_object_get(e->fields, "hosts_all"));
        const char *until = over >= 0 ? arena_printf(a, "step %lld", (long long)over) : "its end";
        add_pair(a, &table,
                host ? arena_printf(a, "host %s", run_event_text(e, "host"))
                     : arena_printf(a, "rank %lld (%s)", (long long)run_event_i64(e, "rank", -1),
                               run_event_text(e, "host")),
                arena_printf(a, "%s, %.2f times as long, step %lld to %s, attempt %lld",
                        run_event_text(e, "reason"), run_event_f64(e, "ratio"),
                        (long long)run_event_i64(e, "since_step", -1), until,
                        (long long)e->attempt));
    }
    if (left_out)
        add_pair(a, &table, "", arena_printf(a, "... and %lld more", (long long)left_out));
    return table;
}

// --- energy
static const char *joules_text(arena *a, double joules, double per_step) {
    return arena_printf(a, "%s%sJ, %.4g J a step", str_si(joules), joules < 1000 ? " " : "",
            per_step);
}

static report_table make_energy(arena *a, const watched_run *run) {
    report_table table = {.title = "Energy", .columns = 2};
    const char *words = watched_run_energy_text(run);
    double per_step;
    const double joules = watched_run_joules(run, &per_step);
    if (isfinite(joules)) add_pair(a, &table, "steps that count", joules_text(a, joules, per_step));
    for (int64_t i = 0; i < run->n_energy && run->n_energy > 1; i++)
        add_pair(a, &table, run->energy[i].host,
                joules_text(a, run->energy[i].joules,
                        run->energy[i].joules / (double)run->energy[i].steps));
    if (*words) add_pair(a, &table, isfinite(joules) ? "read by" : "energy", words);
    if (!table.n && run->events.n)
        add_pair(a, &table, "energy", "not known: the run has no figures");
    return table;
}

// --- environment and config
static report_table make_environment(arena *a, const watched_run *run) {
    report_table table = {.title = "Environment", .columns = 2};
    const run_event *start = newest(run, EVENT_START);
    if (!start) return table;
    add_pair(a, &table, "drover", run_event_text(start, "version"));
    add_pair(a, &table, "ranks",
            arena_printf(a, "%lld on %lld node%s", (long long)run_event_i64(start, "ranks", -1),
                    (long long)run_event_i64(start, "nodes", -1),
                    str_plural(run_event_i64(start, "nodes", -1))));
    add_pair(a, &table, "host of rank 0", run_event_text(start, "host"));
    add_pair(a, &table, "back end",
            arena_printf(a, "%s%s%s", run_event_text(start, "backend"), run->table.n ? ", " : "",
                    run->table.n ? run->table.rows[0].arithmetic : ""));
    if (*run_event_text(start, "job")) add_pair(a, &table, "job", run_event_text(start, "job"));
    return table;
}

static report_table make_config(arena *a, const report_facts *facts) {
    report_table table = {.title = "Configuration, where it differs from the defaults",
            .columns = 2};
    for (const char *line = facts->config ? facts->config : ""; *line;) {
        const size_t length = strcspn(line, "\n"), name = strcspn(line, ":");
        if (name < length)
            add_pair(a, &table, arena_strndup(a, line, name),
                    arena_strndup(a, line + name + 2, length > name + 2 ? length - name - 2 : 0));
        line += length + (line[length] == '\n');
    }
    return table;
}

report_table report_table_make(arena *a, int i, const watched_run *run, const report_facts *facts) {
    switch (i) {
    case 0:
        return make_results(a, run);
    case 1:
        return make_plan(a, run, facts);
    case 2:
        return make_terms(a, run);
    case 3:
        return make_stragglers(a, run);
    case 4:
        return make_energy(a, run);
    case 5:
        return make_environment(a, run);
    default:
        return make_config(a, facts);
    }
}

// --- comparison of runs
report_table report_compare(arena *a, watched_run *const *runs, int n_runs) {
    report_table table = {.title = "Comparison (speed-up and efficiency: against the first run)",
            .columns = REPORT_COLUMNS,
            .has_head = true};
    static const char *const head[REPORT_COLUMNS] = {"run", "ranks", "tokens/s", "step", "speed-up",
            "efficiency", "mfu", "goodput", "loss"};
    add_row(a, &table, head);
    const double first = mean_of(&runs[0]->curves[CURVE_TOKENS_PER_S]),
                 first_ranks = (double)ranks_of(runs[0]);
    for (int i = 0; i < n_runs; i++) {
        const watched_run *run = runs[i];
        const double speed = mean_of(&run->curves[CURVE_TOKENS_PER_S]),
                     ranks = (double)ranks_of(run), more = speed / first;
        const char *cells[REPORT_COLUMNS] = {run->dir, arena_printf(a, "%.0f", ranks),
                number(a, speed, 0, ""), number(a, mean_step(run), 4, " s"), number(a, more, 2, ""),
                number(a, 100 * more / (ranks / first_ranks), 1, " %"),
                number(a, 100 * mean_of(&run->curves[CURVE_MFU]), 1, " %"),
                number(a, 100 * run->sums.goodput, 1, " %"), number(a, run->last.loss, 4, "")};
        add_row(a, &table, cells);
    }
    return table;
}
