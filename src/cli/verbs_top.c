// drover top: shows runs while they go on, on a live screen, as text or as JSON.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/run_about.h"
#include "watch/views/live_screen.h"
#include "watch/views/top_view.h"

enum { FRAME_MS = 500, ONCE_ROWS = 96, MAX_RUNS = 256 };
// Limits the time of reading metrics.jsonl, so that a long one delays neither the screen nor a
// script.
#define FIRST_FRAME_S 0.01
#define FRAME_READS_S 0.05
#define ONCE_READS_S  10.0

typedef struct top {
    watched_run **runs;
    const char **about;
    int n, open; // open: the run that is shown; -1: the list
    top_view view, list;
    bool asks; // for a text to find
} top;

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

// --- frames
static void draw(top *self, screen *s) {
    if (self->open < 0) {
        top_draw_list(s, self->runs, self->n, &self->list);
        return;
    }
    self->view.about = self->about[self->open];
    top_draw(s, self->runs[self->open], &self->view);
}

// Reads the open run, or all of them while the list is shown.
static void read_shown(top *self, double limit_s) {
    const double until = clock_s() + limit_s;
    const int first = self->open < 0 ? 0 : self->open, end = self->open < 0 ? self->n : first + 1;
    for (int i = first; i < end; i++) {
        const double share = (until - clock_s()) / (end - i);
        watched_run_read(self->runs[i], share > 1e-3 ? share : 1e-3);
    }
}

static drv_status print_once(top *self) {
    str out = {0};
    const bool colour = terminal_has_colour(STDOUT_FILENO);
    screen s = screen_new(cli_columns(100), self->open < 0 ? self->n + 1 : ONCE_ROWS);
    self->view.selected = self->list.selected = -1; // nothing is selected
    draw(self, &s);
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

// --- keys
static void type_find(top_view *view, int key, bool *asks) {
    const size_t n = strlen(view->find);
    if (key == '\n' || key == '\r' || key == 27)
        *asks = false;
    else if (key == 127 || key == 8)
        view->find[n > 0 ? n - 1 : 0] = 0;
    else if (key >= ' ' && key < 127 && n + 1 < sizeof view->find)
        view->find[n] = (char)key, view->find[n + 1] = 0;
}

static void open_page(top_view *view, top_page page) {
    view->page = view->page == page ? PAGE_RUN : page;
}

// Returns false to quit.
static bool heed_run_key(top *self, int key) {
    top_view *view = &self->view;
    switch (key) {
    case 'q':
    case 27:
        if (view->page != PAGE_RUN) {
            view->page = PAGE_RUN;
            return true;
        }
        self->open = -1;
        return self->n > 1;
    case 's':
        view->sort = (view->sort + 1) % N_TOP_SORTS;
        return true;
    case '/':
        self->asks = view->page == PAGE_RUN;
        view->find[0] = 0;
        return true;
    case 'r':
    case '\n':
    case '\r':
        open_page(view, PAGE_RANK);
        return true;
    case 'l':
        open_page(view, PAGE_LOG);
        return true;
    case 'p':
        view->plan = !view->plan;
        return true;
    default:
        return true;
    }
}

static bool heed_list_key(top *self, int key) {
    if (key == 'q' || key == 27) return false;
    if (key == '\n' || key == '\r') {
        self->open = self->list.selected;
        self->view.selected = self->view.first_row = 0;
    }
    return true;
}

static bool heed(top *self, int key) {
    top_view *view = self->open < 0 ? &self->list : &self->view;
    if (self->asks) {
        type_find(view, key, &self->asks);
        return true;
    }
    view->selected += key == KEY_OF_DOWN        ? 1
                      : key == KEY_OF_UP        ? -1
                      : key == KEY_OF_PAGE_DOWN ? 10
                      : key == KEY_OF_PAGE_UP   ? -10
                                                : 0;
    if (view->selected < 0) view->selected = 0;
    return self->open < 0 ? heed_list_key(self, key) : heed_run_key(self, key);
}

static drv_status live(arena *a, top *self) {
    live_screen *terminal;
    DRV_TRY(live_screen_open(a, terminal_has_colour(STDOUT_FILENO), &terminal));
    double next = 0;
    for (bool goes_on = true; goes_on;) {
        if (clock_s() >= next) {
            read_shown(self, next > 0 ? FRAME_READS_S : FIRST_FRAME_S);
            next = clock_s() + 1e-3 * FRAME_MS;
        }
        int columns, rows;
        live_screen_size(terminal, &columns, &rows);
        screen s = screen_new(columns, rows);
        draw(self, &s);
        if (self->asks) screen_printf(&s, rows - 1, 0, STYLE_SELECTED, "find: %s", self->view.find);
        live_screen_show(terminal, &s);
        screen_free(&s);
        const double left = next - clock_s();
        const int key = live_screen_key(terminal, left > 0 ? (int)(1e3 * left) + 1 : 1);
        const int before = self->open;
        goes_on = key >= 0 && (key == KEY_OF_NONE || heed(self, key));
        if (self->open != before) next = 0;
    }
    live_screen_close(terminal);
    return DRV_OK;
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
    if (text && status == DRV_OK) read_shown(&all, ONCE_READS_S);
    if (status == DRV_OK && cli_has(args, "--json"))
        print_json(&all);
    else if (status == DRV_OK && text)
        status = print_once(&all);
    else if (status == DRV_OK)
        status = live(a, &all);
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
