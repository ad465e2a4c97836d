// drover plot: draws curves of runs on the terminal or to a file.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"
#include "plot/chart.h"

// Splits "loss,lr" into a list, with val_loss after loss.
static drv_status split_keys(arena *a, const char *text, const char **keys, int *n) {
    *n = 0;
    for (char *rest = arena_strdup(a, text), *key; (key = strsep(&rest, ","));) {
        if (!*key)
            return drv_fail(DRV_E_USAGE,
                    "plot: --keys is \"%s\", expected names with commas between", text);
        if (*n + 2 > PLOT_MAX_KEYS)
            return drv_fail(DRV_E_USAGE, "plot: --keys has more than %d names", PLOT_MAX_KEYS - 1);
        for (int i = 0; i < *n; i++)
            if (strcmp(keys[i], key) == 0)
                return drv_fail(DRV_E_USAGE, "plot: --keys names \"%s\" twice", key);
        keys[(*n)++] = key;
        if (strcmp(key, "loss") == 0 && !strstr(text, "val_loss")) keys[(*n)++] = "val_loss";
    }
    return DRV_OK;
}

static drv_status read_runs(arena *a, const cli_args *args, const char *const *keys, int n_keys,
        plot_run *runs) {
    bool any = false;
    for (int r = 0; r < args->n_positional; r++) {
        DRV_TRY(plot_read(a, args->positional[r], keys, n_keys, &runs[r]));
        if (runs[r].n_broken > 0)
            log_warn("%s: %lld line%s broken and left out", runs[r].name,
                    (long long)runs[r].n_broken, runs[r].n_broken > 1 ? "s are" : " is");
        if (runs[r].n_records == 0) log_warn("%s: nothing to draw yet", runs[r].name);
        any |= runs[r].n_records > 0;
    }
    for (int k = 0; k < n_keys && any; k++) { // a key that no run has is a mistake
        bool has = strcmp(keys[k], "val_loss") == 0;
        for (int r = 0; r < args->n_positional; r++)
            has |= runs[r].series[k].n > 0;
        if (!has)
            return drv_fail(DRV_E_USAGE, "plot: no run has numbers for \"%s\"; see metrics.jsonl",
                    keys[k]);
    }
    if (!any) return drv_fail(DRV_E_DATA, "plot: no run has a step yet");
    return DRV_OK;
}

static drv_status run_plot(arena *a, const cli_args *args) {
    const char *file = cli_get(args, "--out", NULL), *keys[PLOT_MAX_KEYS];
    const bool html = file && str_ends(file, ".html"), svg = file && str_ends(file, ".svg");
    int64_t width = cli_columns(80), height = 16;
    if (file && !html && !svg)
        return drv_fail(DRV_E_USAGE,
                "plot: --out is \"%s\", expected a name ending in .svg or .html", file);
    DRV_TRY(cli_get_i64(args, "--width", 20, 10000, &width));
    DRV_TRY(cli_get_i64(args, "--height", 8, 1000, &height));
    plot drawn = {.n_runs = args->n_positional, .keys = keys};
    DRV_TRY(split_keys(a, cli_get(args, "--keys", file ? "loss,lr,grad_norm,tokens_per_s" : "loss"),
            keys, &drawn.n_keys));
    plot_run *runs = ARENA_ARRAY(a, plot_run, drawn.n_runs);
    DRV_TRY(read_runs(a, args, keys, drawn.n_keys, runs));
    drawn.runs = runs;
    str out = {0};
    if (file) {
        (html ? plot_html : plot_svg)(a, &drawn, &out);
    } else {
        const plot_terminal_opts opts = {.columns = (int)width,
                .rows = (int)height,
                .utf8 = !cli_has(args, "--ascii") && terminal_is_utf8(STDOUT_FILENO),
                .colour = drawn.n_runs > 1 && terminal_has_colour(STDOUT_FILENO)};
        plot_terminal(a, &drawn, &opts, &out);
    }
    DRV_TRY(cli_write_text(file, &out));
    if (file) log_info("%s: %d run%s", file, drawn.n_runs, str_plural(drawn.n_runs));
    return DRV_OK;
}

static const cli_option options[] = {
        {"--out", "FILE", "write FILE.svg or FILE.html instead of drawing on the terminal"},
        {"--keys", "A,B,...",
                "keys of metrics.jsonl (default loss; in a file also lr, grad_norm, tokens_per_s)"},
        {"--width", "N", "columns of the terminal (default: all)"},
        {"--height", "N", "rows of a chart on the terminal (default 16)"},
        {"--ascii", NULL, "draw with letters instead of braille, as on a terminal without UTF-8"},
};

static const cli_rule rules[] = {
        {.option = "--out", .excludes = "--width --height --ascii"},
};

const verb verb_plot = {
        .name = "plot",
        .summary = "draw the curves of runs",
        .usage = "RUN_DIR... [--out FILE.svg|FILE.html] [--keys A,B,...]",
        .help = "Draws metrics.jsonl of each run on the terminal, or as an SVG file or as a self-contained HTML\n"
                "page. Several runs are compared in the same panels; evaluations are points. Unfinished runs are\n"
                "drawn up to their last step.\n"
                "Example: drover plot runs/a runs/b --out compare.svg",
        CLI_OPTIONS(options),
        CLI_RULES(rules),
        CLI_WORDS(1, 1 << 20),
        .run = run_plot,
};
