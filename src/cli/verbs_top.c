// drover top: shows runs while they go on, on a live screen, as text or as JSON.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/run_about.h"
#include "watch/views/live_top.h"

enum { ONCE_ROWS = 96, MAX_RUNS = 256 };
#define ONCE_READS_S 10.0 // limits the time of reading metrics.jsonl

// --- the runs
static drv_status add_run(arena *a, top *self, const char *dir) {
    if (self->n == MAX_RUNS) return drv_fail(DRV_E_USAGE, "top: more than %d runs", MAX_RUNS);
    double bubble;
    self->about[self->n] = run_about(a, dir, &bubble);
    self->runs[self->n++] = watched_run_open(dir, bubble);
    return DRV_OK;
}

// Adds a run directory, or those inside a folder.
static drv_status find_runs(arena *a, top *self, const char *dir) {
    char **names;
    int n;
    const int before = self->n;
    if (watched_run_is_one(dir)) return add_run(a, self, dir);
    if (!file_is_dir(dir)) return watched_run_none("top", dir);
    DRV_TRY(dir_list(a, dir, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *inner = path_join(a, dir, names[i]);
        if (watched_run_is_one(inner)) DRV_TRY(add_run(a, self, inner));
    }
    if (self->n > before) return DRV_OK;
    return watched_run_none("top", dir);
}

// --- output
static drv_status print_once(top *self) {
    str out = {0};
    const bool colour = terminal_has_colour(STDOUT_FILENO);
    screen s = screen_new(cli_columns(100), self->open < 0 ? self->n + 1 : ONCE_ROWS);
    self->view.selected = self->list.selected = -1; // nothing is selected
    top_draw_shown(self, &s);
    screen_print(&s, colour, &out);
    screen_free(&s);
    return cli_write_text(NULL, &out);
}

static void print_json(const top *self) {
    json_t *all = json_object(), *runs = json_array();
    for (int i = 0; i < self->n; i++)
        json_array_append_new(runs, watched_run_json(self->runs[i]));
    json_object_set_new(all, "runs", runs);
    cli_puts_json(all, json_print(all, JSON_COMPACT | JSON_ENSURE_ASCII));
}

static bool wants_text(const cli_args *args) {
    const char *term = getenv("TERM");
    return cli_has(args, "--once") || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !term ||
           !*term || strcmp(term, "dumb") == 0;
}

static drv_status run_top(arena *a, const cli_args *args) {
    top all = {.runs = ARENA_ARRAY(a, watched_run *, MAX_RUNS),
            .about = ARENA_ARRAY(a, const char *, MAX_RUNS),
            .list = {.page = PAGE_LIST, .about = ""},
            .view = {.about = ""}};
    drv_status status = DRV_OK;
    for (int i = 0; i < args->n_positional && status == DRV_OK; i++)
        status = find_runs(a, &all, args->positional[i]);
    all.open = all.n == 1 ? 0 : -1;
    all.view.utf8 = all.list.utf8 = terminal_is_utf8(STDOUT_FILENO);
    const bool text = wants_text(args) || cli_has(args, "--json");
    if (text && status == DRV_OK) top_read_shown(&all, ONCE_READS_S);
    if (status == DRV_OK && cli_has(args, "--json"))
        print_json(&all);
    else if (status == DRV_OK && text)
        status = print_once(&all);
    else if (status == DRV_OK)
        status = live_top(a, &all);
    for (int i = 0; i < all.n; i++)
        watched_run_close(all.runs[i]);
    return status;
}

static const cli_option options[] = {
        {"--once", NULL, "print once, as text (the default if standard output is not a terminal)"},
        CLI_JSON,
};

static const cli_rule rules[] = {
        {.option = "--json", .excludes = "--once"},
};

const verb verb_top = {
        .name = "top",
        .summary = "watch runs live",
        .usage = "RUN_DIR...|PARENT [--once] [--json]",
        .help = "Shows the state of a run: step, loss, speed, goodput, what each rank is doing and how its last\n"
                "step was spent, and the events. It only reads the files of the run directory, so it works over\n"
                "ssh, on a shared file system, and for other people's runs. For several runs, or for a folder of\n"
                "runs, it shows a list.\n"
                "\n"
                "Keys: arrows select; enter or r shows the last operations of a rank, l its log, p its memory and\n"
                "plan; s changes the order; / finds a rank by number or host; q goes back, or quits.\n"
                "Example: drover top runs",
        CLI_OPTIONS(options),
        CLI_RULES(rules),
        CLI_WORDS(1, 1 << 20),
        .run = run_top,
};
