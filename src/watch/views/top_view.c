// Draws the pages of `drover top`: header, curve, ranks, events.
#include "watch/views/top_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"

enum { BAR = 24, MAX_EVENTS = 5, TAIL_BYTES = 1 << 16 };

// --- header
static const char *or_dash(char *out, size_t size, int decimals, const char *unit, double value) {
    if (isfinite(value))
        snprintf(out, size, "%.*f%s", decimals, value, unit);
    else
        snprintf(out, size, "-");
    return out;
}

static cell_style state_style(const char *state) {
    if (strcmp(state, "failed") == 0 || strcmp(state, "silent") == 0) return STYLE_BAD;
    return strcmp(state, "running") == 0 || strcmp(state, "done") == 0 ? STYLE_GOOD : STYLE_BOLD;
}

// Draws plan and measurement as a sentence; returns the rows that it takes.
static int draw_terms(screen *grid, int row, const watched_run *run) {
    arena *a = arena_new("terms");
    const term_pair *pairs;
    const char *device;
    const int n = watched_terms_pairs(a, &run->terms, &run->events, &pairs, &device);
    const char *words = watched_terms_text(a, pairs, n);
    if (*words) screen_printf(grid, row, 0, STYLE_DIM, "plan for %s: %s", device, words);
    const int taken = *words != 0;
    arena_free(a);
    return taken;
}

static int draw_head(screen *grid, const watched_run *run, const top_view *view) {
    char text[4][32];
    const char *state = watched_run_state(run);
    int column = screen_put(grid, 0, 0, STYLE_BOLD, run->dir);
    column = screen_put(grid, 0, column + 2, state_style(state), state);
    if (run->has_status)
        column = screen_printf(grid, 0, column + 2, STYLE_PLAIN,
                "attempt %lld, %lld rank%s on %lld node%s", (long long)run->status.attempt,
                (long long)run->status.ranks, str_plural(run->status.ranks),
                (long long)run->status.nodes, str_plural(run->status.nodes));
    screen_put(grid, 0, column + 2, STYLE_DIM, view->about);
    const int64_t step = watched_run_step(run);
    column = step < 0 ? screen_put(grid, 1, 0, STYLE_BOLD, "no step yet")
                      : screen_printf(grid, 1, 0, STYLE_BOLD, "step %lld", (long long)step);
    if (run->has_status)
        column = screen_printf(grid, 1, column, STYLE_BOLD, "/%lld", (long long)run->status.steps);
    if (run->has_status && isfinite(run->status.eta_s))
        column = screen_printf(grid, 1, column + 2, STYLE_PLAIN, "eta %s",
                str_long_duration(run->status.eta_s));
    screen_printf(grid, 1, column + 2, STYLE_PLAIN, "loss %s  %s tokens/s  mfu %s  goodput %s",
            or_dash(text[0], sizeof text[0], 4, "", run->last.loss),
            or_dash(text[1], sizeof text[1], 0, "", run->last.tokens_per_s),
            or_dash(text[2], sizeof text[2], 1, "%", 100 * run->last.mfu),
            or_dash(text[3], sizeof text[3], 1, "%", 100 * run->sums.goodput));
    int row = 2;
    if (run->has_status && run->status.end != RUN_GOES_ON)
        screen_printf(grid, row++, 0, state_style(state), "ended: %s (%s, exit status %lld) %s",
                run_end_name(run->status.end), run->status.cause,
                (long long)run->status.exit_status, run->status.message);
    row += draw_terms(grid, row, run);
    if (run->read_bytes < run->metrics_bytes)
        screen_printf(grid, row++, 0, STYLE_DIM, "reading metrics.jsonl: %.0f%%",
                100 * (double)run->read_bytes / (double)run->metrics_bytes);
    return screen_put_lines(grid, row, 2, STYLE_BAD, run->problems.n ? run->problems.p : "");
}

static int draw_curve(screen *grid, int row, int rows, const watched_run *run,
        const top_view *view) {
    static const char *const keys[] = {"loss", "val_loss"};
    plot_run curves = {.name = run->dir};
    if (rows < 6 || run->curves[CURVE_LOSS].n == 0) return row;
    for (int i = 0; i < 2; i++)
        curves.series[i] = run->curves[i];
    const plot drawn = {.runs = &curves, .n_runs = 1, .keys = keys, .n_keys = 2};
    arena *a = arena_new("curve");
    str text = {0};
    plot_terminal(a, &drawn,
            &(plot_terminal_opts){.columns = grid->columns, .rows = rows, .utf8 = view->utf8},
            &text);
    row = screen_put_lines(grid, row, rows, STYLE_PLAIN, text.n ? text.p : "");
    str_free(&text);
    arena_free(a);
    return row;
}

// --- ranks
static double own(const rank_row *who) {
    return who->compute_s + who->data_s + who->save_s;
}

typedef struct placed {
    int rank;
    double key; // larger comes first
} placed;

static int compare(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return x->rank - y->rank;
}

static double key_of(const rank_row *who, int rank, top_sort sort) {
    if (sort == SORT_RANK) return -rank;
    if (!who->known) return 1e300; // ranks of which nothing is known come first
    return sort == SORT_OWN ? own(who) : sort == SORT_WAIT ? who->wait_s : (double)who->resident;
}

static bool is_found(const rank_row *who, int rank, const char *find) {
    char number[16];
    snprintf(number, sizeof number, "%d", rank);
    return !*find || strcmp(find, number) == 0 || strstr(who->host, find);
}

// Returns the ranks in the order of the view; the caller frees the list.
static placed *order_of(const rank_table *table, top_sort sort, const char *find, int *count) {
    placed *list = mem_alloc(sizeof *list * (size_t)(table->n + 1));
    *count = 0;
    for (int i = 0; i < table->n; i++)
        if (is_found(&table->rows[i], i, find))
            list[(*count)++] = (placed){i, key_of(&table->rows[i], i, sort)};
    qsort(list, (size_t)*count, sizeof *list, compare);
    return list;
}

// With many ranks the slowest come first, unless the user has asked for another order.
static top_sort sort_of(const watched_run *run, const top_view *view) {
    return run->table.n > TOP_MAX_ROWS && view->sort == SORT_RANK ? SORT_OWN : view->sort;
}

// Returns the selected rank; -1: none.
static int selected_rank(const watched_run *run, const top_view *view) {
    int count;
    placed *list = order_of(&run->table, sort_of(run, view), view->find, &count);
    const int rank = view->selected >= 0 && view->selected < count ? list[view->selected].rank : -1;
    free(list);
    return rank;
}

static int draw_bar(screen *grid, int row, int column, const rank_row *who, double longest,
        bool utf8) {
    const struct {
        double s;
        cell_style style;
        const char *letter;
    } parts[] = {{who->compute_s, STYLE_GOOD, "c"}, {who->wait_s, STYLE_WAIT, "w"},
            {who->data_s, STYLE_DATA, "d"}, {who->save_s, STYLE_SAVE, "s"}};
    static const char *const shades[] = {"█", "░", "▓", "▒"};
    double sum = 0;
    int done = 0;
    for (int i = 0; i < 4; i++) {
        sum += parts[i].s;
        const int until = longest > 0 ? (int)lrint(BAR * fmin(sum / longest, 1)) : 0;
        for (; done < until; done++)
            screen_put(grid, row, column + done, parts[i].style,
                    utf8 ? shades[i] : parts[i].letter);
    }
    return column + BAR;
}

static void draw_rank(screen *grid, int row, int rank, const rank_row *who, const top_view *view,
        double longest, cell_style style) {
    if (!who->known) {
        screen_printf(grid, row, 0, style, "%6d  not readable", rank);
        return;
    }
    int column = screen_printf(grid, row, 0, style, "%6d %-12.12s %8lld %-6.6s ", rank, who->host,
            (long long)who->step, who->program);
    if (view->plan) {
        screen_printf(grid, row, column, style, "%11s of %11s  device %11s  sent %11s  %s",
                str_bytes((double)who->resident), str_bytes((double)who->planned),
                str_bytes((double)who->device), str_bytes((double)who->sent), who->arithmetic);
        return;
    }
    column = draw_bar(grid, row, column, who, longest, view->utf8);
    column = screen_printf(grid, row, column, style, " %7.3f ", own(who) + who->wait_s);
    screen_printf(grid, row, column, style,
            "%s%s %.1f s  compute %.3f wait %.3f data %.3f save %.3f",
            who->ended || who->heard_s < 5 ? "" : "SILENT ",
            who->ended ? "ended"
            : *who->op ? who->op
                       : "computing",
            who->since_s + who->heard_s, who->compute_s, who->wait_s, who->data_s, who->save_s);
}

static double median_own(const rank_table *table) {
    int count;
    placed *list = order_of(table, SORT_OWN, "", &count);
    const double median = count ? own(&table->rows[list[count / 2].rank]) : 0;
    free(list);
    return median;
}

// Draws one cell for each rank: by how much its own time exceeds the median.
static int draw_map(screen *grid, int row, int rows, const rank_table *table, bool utf8) {
    static const char *const shades[] = {"·", "░", "▒", "▓", "█"}, *const letters = ".-+#@";
    const double median = median_own(table);
    screen_printf(grid, row++, 0, STYLE_DIM,
            "a cell a rank: own time over the median's, %s up to 5, 10, 20, 50 %% and more; ? unknown",
            utf8 ? "· ░ ▒ ▓ █" : ". - + # @");
    const int most = (rows - 1) * grid->columns;
    for (int i = 0; i < table->n && i < most; i++) {
        const rank_row *who = &table->rows[i];
        const double over = median > 0 ? own(who) / median - 1 : 0;
        const int level = over < 0.05 ? 0 : over < 0.1 ? 1 : over < 0.2 ? 2 : over < 0.5 ? 3 : 4;
        const char letter[] = {letters[level], 0};
        const cell_style style = !who->known || level == 4 ? STYLE_BAD
                                 : level >= 2              ? STYLE_DATA
                                                           : STYLE_GOOD;
        screen_put(grid, row + i / grid->columns, i % grid->columns, style,
                !who->known ? "?"
                : utf8      ? shades[level]
                            : letter);
    }
    const int shown = table->n < most ? table->n : most;
    return row + (shown + grid->columns - 1) / grid->columns;
}

static void scroll_to_selection(top_view *view, int count, int rows) {
    if (view->selected >= count) view->selected = count - 1;
    if (view->selected < 0) return;
    if (view->first_row > view->selected) view->first_row = view->selected;
    if (view->first_row <= view->selected - rows) view->first_row = view->selected - rows + 1;
}

static int draw_ranks(screen *grid, int row, int rows, const watched_run *run, top_view *view) {
    const rank_table *table = &run->table;
    static const char *const sorts[] = {"rank", "own time", "wait", "memory"};
    if (!run->has_table || rows < 2) return row;
    const int end = row + rows;
    if (table->n > TOP_MAX_ROWS) row = draw_map(grid, row, rows * 2 / 3, table, view->utf8);
    int count;
    const top_sort sort = sort_of(run, view);
    placed *list = order_of(table, sort, view->find, &count);
    double longest = 0;
    for (int i = 0; i < count; i++)
        longest = fmax(longest, own(&table->rows[list[i].rank]) + table->rows[list[i].rank].wait_s);
    if (row < end)
        screen_printf(grid, row++, 0, STYLE_DIM, "%6s %-12s %8s %-6s %s   by %s%s%s%s", "rank",
                "host", "step", "program",
                view->plan ? "held of planned" : "compute, wait, data, save", sorts[sort],
                *view->find ? ", with \"" : "", view->find, *view->find ? "\"" : "");
    scroll_to_selection(view, count, end - row);
    for (int i = view->first_row; i < count && row < end; i++, row++)
        draw_rank(grid, row, list[i].rank, &table->rows[list[i].rank], view, longest,
                i == view->selected && view->page == PAGE_RUN ? STYLE_SELECTED : STYLE_PLAIN);
    free(list);
    return row;
}

// --- events
static void event_text(const run_event *e, char *out, size_t size) {
    const time_t seconds = (time_t)fmax(0, fmin(e->time, 4e9));
    char clock[32];
    struct tm tm;
    strftime(clock, sizeof clock, "%Y-%m-%d %H:%M:%SZ", gmtime_r(&seconds, &tm));
    const char *detail[] = {run_event_text(e, "host"), run_event_text(e, "state"),
            run_event_text(e, "cause"), run_event_text(e, "reason"), run_event_text(e, "signal"),
            run_event_text(e, "message")};
    int count = snprintf(out, size, "%s  attempt %lld  %s", clock, (long long)e->attempt,
            run_event_name(e->kind));
    const int64_t step = run_event_i64(e, "step", -1), rank = run_event_i64(e, "rank", -1);
    if (step >= 0 && count < (int)size)
        count += snprintf(out + count, size - (size_t)count, "  step %lld", (long long)step);
    if (rank >= 0 && count < (int)size)
        count += snprintf(out + count, size - (size_t)count, "  rank %lld", (long long)rank);
    for (size_t i = 0; i < sizeof detail / sizeof *detail && count < (int)size; i++)
        if (*detail[i]) count += snprintf(out + count, size - (size_t)count, "  %s", detail[i]);
}

static void draw_events(screen *grid, int row, int rows, const run_event_list *events) {
    char text[512];
    const int64_t first = events->n > rows ? events->n - rows : 0;
    for (int64_t i = first; i < events->n; i++) {
        const run_event *e = &events->events[i];
        event_text(e, text, sizeof text);
        screen_put(grid, row++, 0, e->kind == EVENT_FAILURE ? STYLE_BAD : STYLE_DIM, text);
    }
}

// --- pages
static void draw_run(screen *grid, const watched_run *run, top_view *view) {
    int row = draw_head(grid, run, view);
    const int left = grid->rows - row,
              events = run->events.n < MAX_EVENTS ? (int)run->events.n : MAX_EVENTS,
              kept = left > 14  ? events
                     : left > 8 ? 1
                                : 0;
    const int curve = left > 60 ? 14 : left > 14 ? left / 3 : 0;
    row = draw_curve(grid, row, curve, run, view);
    row = draw_ranks(grid, row, grid->rows - row - kept, run, view);
    draw_events(grid, row, grid->rows - row < kept ? grid->rows - row : kept, &run->events);
}

// Draws the last lines of a file, as many as fit.
static void draw_tail(screen *grid, int row, arena *a, const char *path) {
    char *text;
    size_t count;
    if (file_read_tail(a, path, TAIL_BYTES, &text, &count) != DRV_OK) {
        screen_put(grid, row, 0, STYLE_BAD, drv_message());
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (!text[i]) text[i] = '?';
    while (count > 0 && text[count - 1] == '\n')
        text[--count] = 0;
    const char *from = text + count;
    for (int lines = grid->rows - row; from > text; from--)
        if (from[-1] == '\n' && --lines <= 0) break;
    screen_put_lines(grid, row, grid->rows - row, STYLE_PLAIN, from);
}

static void draw_file(screen *grid, const watched_run *run, const top_view *view) {
    arena *a = arena_new("path");
    const int rank = selected_rank(run, view);
    const char *path = view->page == PAGE_RANK && rank >= 0
                               ? arena_printf(a, "%s/ranks/rank-%05d.txt", run->dir, rank)
                       : rank > 0 ? arena_printf(a, "%s/ranks/log-%05d.txt", run->dir, rank)
                                  : path_join(a, run->dir, "log.txt");
    screen_put(grid, 0, 0, STYLE_BOLD, path);
    draw_tail(grid, 1, a, path);
    arena_free(a);
}

void top_draw(screen *grid, const watched_run *run, top_view *view) {
    if (view->page == PAGE_RUN)
        draw_run(grid, run, view);
    else
        draw_file(grid, run, view);
}

void top_draw_list(screen *grid, watched_run *const *runs, int count, top_view *view) {
    static const char columns[] = " %-9s %14s %9s %10s %8s %s";
    enum { NAME = 28 };
    char text[3][32];
    screen_put(grid, 0, 0, STYLE_DIM, "run");
    screen_printf(grid, 0, NAME, STYLE_DIM, columns, "state", "step", "loss", "tokens/s", "goodput",
            "eta");
    scroll_to_selection(view, count, grid->rows - 1);
    for (int i = view->first_row, row = 1; i < count && row < grid->rows; i++, row++) {
        const watched_run *run = runs[i];
        const cell_style style =
                i == view->selected && view->page == PAGE_LIST ? STYLE_SELECTED : STYLE_PLAIN;
        char step[48] = "-";
        if (run->has_status)
            snprintf(step, sizeof step, "%lld/%lld", (long long)watched_run_step(run),
                    (long long)run->status.steps);
        else if (watched_run_step(run) >= 0)
            snprintf(step, sizeof step, "%lld", (long long)watched_run_step(run));
        const char *name = run->dir; // its end, as far as it fits
        while (strlen(name) > NAME || (*name & 0xc0) == 0x80)
            name++;
        for (int column = screen_put(grid, row, 0, style, name); column < NAME; column++)
            screen_put(grid, row, column, style, " ");
        screen_printf(grid, row, NAME, style, columns, watched_run_state(run), step,
                or_dash(text[0], sizeof text[0], 4, "", run->last.loss),
                or_dash(text[1], sizeof text[1], 0, "", run->last.tokens_per_s),
                or_dash(text[2], sizeof text[2], 1, "%", 100 * run->sums.goodput),
                run->has_status && isfinite(run->status.eta_s) ? str_duration(run->status.eta_s)
                                                               : "-");
    }
}
