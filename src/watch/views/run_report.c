// Writes reports of runs: makes rows of text first, which both forms print.
#include "watch/views/run_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status_line.h"
#include "watch/views/report_tables.h"
#include "watch/views/report_timeline.h"

enum { BAR = 40, MAX_RANK_ROWS = 64, WORDS = 512 };

// --- for both forms
static void say_verdict(const watched_run *run, char *out, size_t size) {
    const run_status *s = &run->status;
    const char *state = watched_run_state(run);
    if (!run->has_status && run->last.step < 0)
        snprintf(out, size, "%s: no step is known", state);
    else if (!run->has_status)
        snprintf(out, size, "%s: step %lld is the last one known", state,
                (long long)run->last.step);
    else if (s->end == RUN_FAILED)
        snprintf(out, size, "failed at step %lld of %lld: %s (%s, exit status %lld)",
                (long long)s->step, (long long)s->steps, s->message, s->cause,
                (long long)s->exit_status);
    else
        snprintf(out, size, "%s: step %lld of %lld", state, (long long)watched_run_step(run),
                (long long)s->steps);
}

// Returns what to do next; "": nothing.
static const char *advice(const watched_run *run) {
    const run_status *s = &run->status;
    if (!run->has_status || s->end == RUN_DONE) return "";
    if (s->end == RUN_STOPPED) return "the same command resumes it";
    if (s->end == RUN_FAILED)
        return s->exit_status == 75 ? "another try may succeed: the same command resumes it"
                                    : "correct what the message names; the same command resumes it";
    if (strcmp(watched_run_state(run), "silent") == 0)
        return "nothing was written for a minute: check whether its processes are alive";
    return "";
}

static double share(const ledger_sums *sums, int class) {
    return sums->wall_s > 0 ? sums->seconds[class] / sums->wall_s : 0;
}

static void say_goodput(const watched_run *run, const report_opts *opts, char *out, size_t size) {
    const ledger_sums *sums = &run->sums;
    char percent[32] = "not known";
    if (isfinite(sums->goodput)) snprintf(percent, sizeof percent, "%.1f %%", 100 * sums->goodput);
    int n = snprintf(out, size,
            "goodput %s = (compute + communication + bubble) / (wall - stopped)", percent);
    if (opts->price > 0 && n > 0 && n < (int)size)
        snprintf(out + n, size - (size_t)n, "; at %g an hour: %.2f, of it %.2f useful", opts->price,
                opts->price * (sums->wall_s - sums->seconds[LEDGER_STOPPED]) / 3600,
                opts->price *
                        (sums->seconds[LEDGER_COMPUTE] + sums->seconds[LEDGER_COMMUNICATION] +
                                sums->seconds[LEDGER_BUBBLE]) /
                        3600);
}

static const report_facts *facts_of(const report_opts *opts, int i) {
    static const report_facts none;
    return opts->facts ? &opts->facts[i] : &none;
}

// --- text
static void text_line(str *out, const char *words) {
    text_add_clean(out, words, false);
    str_puts(out, "\n");
}

static void text_table(const report_table *table, str *out) {
    int widths[REPORT_COLUMNS] = {0};
    if (!table->n) return;
    str_printf(out, "\n%s\n", table->title);
    for (int i = 0; i < table->n; i++)
        for (int k = 0; k < table->columns; k++)
            widths[k] = (int)fmax(widths[k], (double)strlen(table->rows[i][k]));
    for (int i = 0; i < table->n; i++) {
        str line = {0};
        for (int k = 0; k < table->columns; k++)
            str_printf(&line, "  %*s", k == 0 || table->columns == 2 ? -widths[k] : widths[k],
                    table->rows[i][k]);
        while (line.n && line.p[line.n - 1] == ' ')
            line.p[--line.n] = 0;
        text_line(out, line.p);
        str_free(&line);
    }
}

static void text_timeline(arena *a, const watched_run *run, str *out) {
    const timeline line = report_timeline(a, run);
    for (int i = 0; i < line.n; i++) {
        if (!line.rows[i].attempt) str_printf(out, "  at %s  ", str_duration(line.rows[i].at_s));
        text_line(out, line.rows[i].words);
    }
    if (line.left_out) str_printf(out, "  ... and %lld more\n", (long long)line.left_out);
}

static void text_samples(const report_facts *facts, str *out) {
    if (facts->no_samples) {
        str_puts(out, "\nno samples of text: ");
        text_line(out, facts->no_samples);
    }
    for (int i = 0; i < facts->n_samples; i++) {
        str_printf(out, "\nsample %d\n", i + 1);
        text_add_clean(out, facts->samples[i], true);
        str_puts(out, "\n");
    }
}

static void text_run(const watched_run *run, const char *about, const report_facts *facts,
        const report_opts *opts, str *out) {
    char words[WORDS];
    const ledger_sums *sums = &run->sums;
    say_verdict(run, words, sizeof words);
    text_line(out, run->dir);
    text_line(out, words);
    if (*advice(run)) text_line(out, advice(run));
    if (*about) text_line(out, about);
    str_printf(out, "\nwall time %s in %d attempt%s, %lld step%s lost\n",
            str_long_duration(sums->wall_s), sums->n_attempts, str_plural(sums->n_attempts),
            (long long)sums->n_lost_steps, str_plural(sums->n_lost_steps));
    for (int i = 0; i < N_LEDGER_CLASSES; i++) {
        str_printf(out, "  %-22s %12.1f s %6.1f %%  ", ledger_name((ledger_class)i),
                sums->seconds[i], 100 * share(sums, i));
        for (int k = 0; k < (int)lrint(BAR * share(sums, i)); k++)
            str_puts(out, "#");
        while (out->n && out->p[out->n - 1] == ' ')
            out->p[--out->n] = 0;
        str_puts(out, "\n");
    }
    say_goodput(run, opts, words, sizeof words);
    text_line(out, words);
    if (sums->n_negative)
        str_printf(out, "%d gap%s between attempts came out negative and counted as 0\n",
                sums->n_negative, str_plural(sums->n_negative));
    arena *a = arena_new("tables of a report");
    text_timeline(a, run, out);
    for (int i = 0; i < N_REPORT_TABLES; i++) {
        const report_table table = report_table_make(a, i, run, facts);
        text_table(&table, out);
    }
    arena_free(a);
    text_samples(facts, out);
    if (run->problems.n) text_add_clean(out, run->problems.p, true);
}

void run_report_text(watched_run *const *runs, int n, const report_opts *opts, str *out) {
    for (int i = 0; i < n; i++) {
        if (i) str_puts(out, "\n");
        text_run(runs[i], opts->about[i], facts_of(opts, i), opts, out);
    }
    if (n < 2) return;
    arena *a = arena_new("comparison");
    const report_table table = report_compare(a, runs, n);
    text_table(&table, out);
    arena_free(a);
}

// --- HTML
static const char head[] =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>drover report</title>\n";

static const char style[] =
        "body{font:14px system-ui,sans-serif;color:#222;background:#fff;max-width:960px;margin:24px auto;padding:0 12px}\n"
        "svg{max-width:100%;height:auto}\ntable{border-collapse:collapse;margin:8px 0}\n"
        "td,th{padding:3px 14px 3px 0;text-align:right;border-bottom:1px solid #ddd}\n"
        "td:first-child,th:first-child,td.left{text-align:left}\n"
        ".verdict{font-size:18px;font-weight:bold}\n.bar{fill:#0072b2;vertical-align:middle;"
        "-webkit-print-color-adjust:exact;print-color-adjust:exact}\n#live{color:#a30}\n"
        ".line{background:#eee;fill:#0072b2;-webkit-print-color-adjust:exact;print-color-adjust:exact}"
        ".line .open{fill:none;stroke:#0072b2}.line .fault{fill:#d00}.line .event{fill:#555}\npre{white-space:pre-wrap}\n"
        "@media print{h2,table,svg{break-inside:avoid}}\n";

void run_report_style(str *out) {
    str_puts(out, style);
    str_puts(out, plot_style());
}

// The policy of a served page forbids inline styles and scripts.
static void html_head(bool served, str *out) {
    str_puts(out, head);
    if (served) {
        str_puts(out,
                "<link rel=\"stylesheet\" href=\"/page.css\">\n<script src=\"/page.js\" defer></script>\n"
                "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>\n");
        return;
    }
    str_puts(out, "<style>\n");
    run_report_style(out);
    str_puts(out, "</style>\n");
}

static void element(str *out, const char *open, const char *words, const char *close) {
    str_puts(out, open);
    plot_add_text(out, words);
    str_puts(out, close);
}

static void html_ledger(const watched_run *run, const report_opts *opts, str *out) {
    char words[WORDS];
    str_puts(out, "<h3>Where the time went</h3>\n<table>\n");
    for (int i = 0; i < N_LEDGER_CLASSES; i++)
        str_printf(out,
                "<tr><td>%s</td><td>%.1f s</td><td>%.1f %%</td><td class=\"left\"><svg class=\"bar\" width=\"300\" height=\"10\"><rect width=\"%.0f\" height=\"10\"/></svg></td></tr>\n",
                ledger_name((ledger_class)i), run->sums.seconds[i], 100 * share(&run->sums, i),
                300 * share(&run->sums, i));
    str_printf(out, "<tr><td>wall time</td><td>%.1f s</td><td></td><td></td></tr>\n</table>\n",
            run->sums.wall_s);
    say_goodput(run, opts, words, sizeof words);
    element(out, "<p>", words, "</p>\n");
}

static void html_ranks(const rank_table *table, str *out) {
    if (!table->n) return;
    str_puts(out,
            "<h3>Ranks, in their last step</h3>\n<table>\n<tr><th>rank</th><th>host</th><th>compute</th><th>wait</th><th>data</th><th>save</th><th>held</th><th>planned</th><th>sent</th></tr>\n");
    for (int i = 0; i < table->n && i < MAX_RANK_ROWS; i++) {
        const rank_row *row = &table->rows[i];
        str_printf(out, "<tr><td>%d</td>", i);
        element(out, "<td>", row->known ? row->host : "not readable", "</td>");
        str_printf(out,
                "<td>%.3f s</td><td>%.3f s</td><td>%.3f s</td><td>%.3f s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
                row->compute_s, row->wait_s, row->data_s, row->save_s,
                str_bytes((double)row->resident), str_bytes((double)row->planned),
                str_bytes((double)row->sent));
    }
    str_puts(out, "</table>\n");
    if (table->n > MAX_RANK_ROWS)
        str_printf(out, "<p>... and %d more</p>\n", table->n - MAX_RANK_ROWS);
}

static void html_table(const report_table *table, str *out) {
    if (!table->n) return;
    element(out, "<h3>", table->title, "</h3>\n<table>\n");
    for (int i = 0; i < table->n; i++) {
        str_puts(out, "<tr>");
        for (int k = 0; k < table->columns; k++)
            element(out,
                    i == 0 && table->has_head ? "<th>"
                    : table->columns == 2     ? "<td class=\"left\">"
                                              : "<td>",
                    table->rows[i][k], i == 0 && table->has_head ? "</th>" : "</td>");
        str_puts(out, "</tr>\n");
    }
    str_puts(out, "</table>\n");
}

// Draws the attempts one below the other on a common time scale: an open bar until the first step,
// then a filled one, with a mark at each failure. Events between attempts are marks alone. Each row
// has its text beside it.
static void html_timeline(arena *a, const watched_run *run, str *out) {
    const ledger_sums *sums = &run->sums;
    const double scale = sums->wall_s > 0 ? 300 / sums->wall_s : 0;
    const timeline line = report_timeline(a, run);
    if (!line.n) return;
    str_puts(out, "<h3>Attempts and faults</h3>\n<table>\n");
    for (int i = 0; i < line.n; i++) {
        const timeline_row *row = &line.rows[i];
        const ledger_attempt *attempt = row->attempt;
        str_puts(out, "<tr><td><svg class=\"line\" width=\"300\" height=\"14\">");
        if (attempt) {
            const double begin =
                    isfinite(attempt->running_s) ? attempt->running_s : attempt->until_s;
            str_printf(out,
                    "<rect class=\"open\" x=\"%.1f\" y=\"2\" width=\"%.1f\" height=\"10\"/>"
                    "<rect x=\"%.1f\" y=\"2\" width=\"%.1f\" height=\"10\"/>",
                    scale * attempt->from_s, scale * fmax(begin - attempt->from_s, 0),
                    scale * begin, scale * fmax(attempt->until_s - begin, 0));
        }
        if (!attempt || row->fault)
            str_printf(out, "<rect class=\"%s\" x=\"%.1f\" width=\"3\" height=\"14\"/>",
                    row->fault ? "fault" : "event",
                    fmax(scale * (attempt ? attempt->until_s : row->at_s) - 3, 0));
        element(out, "</svg></td><td class=\"left\">", row->words, "</td></tr>\n");
    }
    str_puts(out, "</table>\n");
    if (line.left_out) str_printf(out, "<p>... and %lld more</p>\n", (long long)line.left_out);
}

static void html_samples(const report_facts *facts, str *out) {
    if (facts->no_samples) element(out, "<p>no samples of text: ", facts->no_samples, "</p>\n");
    if (facts->n_samples) str_puts(out, "<h3>Samples</h3>\n");
    for (int i = 0; i < facts->n_samples; i++)
        element(out, "<pre>", facts->samples[i], "</pre>\n");
}

static void html_run(const watched_run *run, const char *about, const report_facts *facts,
        const report_opts *opts, str *out) {
    char words[WORDS];
    element(out, "<h2>", run->dir, "</h2>\n");
    say_verdict(run, words, sizeof words);
    element(out, "<p class=\"verdict\">", words, "</p>\n");
    if (*advice(run)) element(out, "<p>", advice(run), "</p>\n");
    if (*about) element(out, "<p>", about, "</p>\n");
    arena *a = arena_new("tables of a report");
    html_ledger(run, opts, out);
    html_timeline(a, run, out);
    html_ranks(&run->table, out);
    for (int i = 0; i < N_REPORT_TABLES; i++) {
        const report_table table = report_table_make(a, i, run, facts);
        html_table(&table, out);
    }
    arena_free(a);
    html_samples(facts, out);
    for (const char *line = run->problems.n ? run->problems.p : ""; *line;) {
        const size_t length = strcspn(line, "\n");
        snprintf(words, sizeof words, "%.*s", (int)length, line);
        element(out, "<p>", words, "</p>\n");
        line += length + (line[length] == '\n');
    }
}

void run_report_html(watched_run *const *runs, int n, const report_opts *opts, str *out) {
    static const char *const keys[N_WATCHED_CURVES] = {"loss", "val_loss", "tokens_per_s", "mfu"};
    arena *a = arena_new("report");
    plot_run *curves = ARENA_ARRAY(a, plot_run, n);
    html_head(opts->served, out);
    for (int i = 0; i < n; i++) {
        curves[i].name = runs[i]->dir;
        for (int k = 0; k < N_WATCHED_CURVES; k++)
            curves[i].series[k] = runs[i]->curves[k];
        html_run(runs[i], opts->about[i], facts_of(opts, i), opts, out);
    }
    if (n > 1) {
        const report_table table = report_compare(a, runs, n);
        html_table(&table, out);
    }
    str_puts(out, "<h2>Curves</h2>\n");
    plot drawn = {curves, n, keys, N_WATCHED_CURVES, .styled = true};
    plot_svg(a, &drawn, out);
    str_puts(out, "</html>\n");
    arena_free(a);
}
