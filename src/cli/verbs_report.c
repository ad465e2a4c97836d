// drover report: prints the outcome of runs as text, JSON or one HTML page.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/run_about.h"
#include "infer/generate.h"
#include "watch/views/run_report.h"

enum { MAX_RUNS = 64 };

static void add_facts(json_t *run, const report_facts *facts) {
    json_t *samples = json_array();
    for (int i = 0; i < facts->n_samples; i++)
        json_array_append_new(samples,
                generated_json(facts->samples[i], strlen(facts->samples[i])));
    json_object_set_new(run, "plan",
            facts->rank_bytes > 0
                    ? json_pack("{sf sf sf}", "rank_bytes", facts->rank_bytes, "sent_bytes",
                              facts->sent_bytes, "bubble", facts->bubble)
                    : json_null());
    json_object_set_new(run, "config_changed",
            facts->config ? generated_json(facts->config, strlen(facts->config)) : json_null());
    json_object_set_new(run, "samples", samples);
}

static void print_json(const cli_args *args, watched_run *const *runs, const report_facts *facts) {
    json_t *list = json_array();
    for (int i = 0; i < args->n_positional; i++) {
        json_t *run = watched_run_json(runs[i]);
        add_facts(run, &facts[i]);
        json_array_append_new(list, run);
    }
    json_t *all = json_pack("{so}", "runs", list);
    cli_puts_json(all, json_print(all, JSON_COMPACT | JSON_ENSURE_ASCII));
}

static drv_status write_report(const cli_args *args, watched_run *const *runs,
        const report_opts *opts) {
    const char *file = cli_get(args, "--out", NULL);
    str out = {0};
    if (cli_has(args, "--json")) {
        print_json(args, runs, opts->facts);
        return DRV_OK;
    }
    (file ? run_report_html : run_report_text)(runs, args->n_positional, opts, &out);
    DRV_TRY(cli_write_text(file, &out));
    if (file) log_info("report: %s", file);
    return DRV_OK;
}

static drv_status run_report(arena *a, const cli_args *args) {
    watched_run *runs[MAX_RUNS];
    report_facts facts[MAX_RUNS];
    const char *about[MAX_RUNS], *file = cli_get(args, "--out", NULL);
    report_opts opts = {.about = about, .facts = facts};
    int64_t n_samples = 0;
    if (file && !str_ends(file, ".html"))
        return drv_fail(DRV_E_USAGE, "report: --out is \"%s\", expected a name ending in .html",
                file);
    DRV_TRY(cli_get_f64(args, "--price", 0, 1e9, &opts.price));
    DRV_TRY(cli_get_i64(args, "--samples", 1, 100, &n_samples));
    for (int i = 0; i < args->n_positional; i++)
        if (!watched_run_is_one(args->positional[i]))
            return watched_run_none("report", args->positional[i]);
    for (int i = 0; i < args->n_positional; i++) {
        double bubble;
        about[i] = run_about(a, args->positional[i], &bubble);
        facts[i] = report_facts_find(a, args->positional[i]);
        if (n_samples) report_facts_sample(a, args->positional[i], n_samples, &facts[i]);
        runs[i] = watched_run_open(args->positional[i], bubble);
        watched_run_read(runs[i], 0);
    }
    const drv_status status = write_report(args, runs, &opts);
    for (int i = 0; i < args->n_positional; i++)
        watched_run_close(runs[i]);
    return status;
}

static const cli_option options[] = {
        {"--out", "FILE.html", "write a self-contained HTML page"},
        {"--price", "MONEY", "price of an hour of the whole run; adds the cost to the report"},
        {"--samples", "N",
                "add N texts of at most 100 tokens, written by each run's newest checkpoint"},
        CLI_JSON,
};

static const cli_rule rules[] = {
        {.option = "--json", .excludes = "--out --price"},
};

const verb verb_report = {
        .name = "report",
        .summary = "report the outcome of runs",
        .usage = "RUN_DIR... [--out FILE.html] [--price MONEY] [--samples N] [--json]",
        .help = "Shows whether a run is done, why it stopped, and what to do next; then where the wall time of\n"
                "all attempts went; the attempts; loss and speed; the plan compared with the measurements;\n"
                "stragglers; energy; the environment; and the keys that differ from their defaults. The HTML page\n"
                "also has ranks and curves. For several runs, it compares speed-up and efficiency, and draws\n"
                "their curves in the same panels.\n"
                "Example: drover report runs/a runs/b --out compare.html",
        CLI_OPTIONS(options),
        CLI_RULES(rules),
        CLI_WORDS(1, MAX_RUNS),
        .run = run_report,
};
