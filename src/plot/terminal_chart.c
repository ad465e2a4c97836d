// Draws curves on a terminal, by braille dots (two columns and four rows per character) or letters.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status_line.h"
#include "plot/chart.h"

enum { MAX_LEFT = 12 }; // columns of the numbers on the left

// The area inside the axes. With braille a cell has 2 x 4 dots, otherwise one.
typedef struct canvas {
    int columns, rows;   // cells
    int dots_x, dots_y;  // in a cell
    unsigned char *dots; // bits of each cell, in braille's order
    signed char *owner;  // the run that drew there last, -1: none
    const char **mark;   // a character drawn over the dots
} canvas;

static canvas canvas_new(arena *a, int columns, int rows, bool utf8) {
    const int n = columns * rows;
    canvas c = {.columns = columns,
            .rows = rows,
            .dots_x = utf8 ? 2 : 1,
            .dots_y = utf8 ? 4 : 1,
            .dots = ARENA_ARRAY(a, unsigned char, n),
            .owner = ARENA_ARRAY(a, signed char, n),
            .mark = ARENA_ARRAY(a, const char *, n)};
    memset(c.owner, -1, (size_t)n);
    return c;
}

static void set_dot(canvas *c, int x, int y, int run) {
    static const unsigned char bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20},
            {0x40, 0x80}};
    if (x < 0 || y < 0 || x >= c->columns * c->dots_x || y >= c->rows * c->dots_y) return;
    const int cell = y / c->dots_y * c->columns + x / c->dots_x;
    c->dots[cell] |= bits[y % c->dots_y][x % c->dots_x];
    c->owner[cell] = (signed char)run;
}

static void draw_segment(canvas *c, int x0, int y0, int x1, int y1, int run) {
    const int n = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= n; i++)
        set_dot(c, x0 + (n ? (x1 - x0) * i / n : 0), y0 + (n ? (y1 - y0) * i / n : 0), run);
}

typedef struct frame {
    plot_range x, y;
} frame;

static int dot_x(const canvas *c, const frame *f, double x) {
    return (int)lrint(plot_range_share(&f->x, x) * (c->columns * c->dots_x - 1));
}

static int dot_y(const canvas *c, const frame *f, double y) {
    return (int)lrint((1 - plot_range_share(&f->y, y)) * (c->rows * c->dots_y - 1));
}

static void draw_curve(arena *a, canvas *c, const frame *f, const plot_series *series, int run) {
    const plot_series s = plot_means(a, series, (int64_t)c->columns * c->dots_x);
    for (int64_t i = 0; i < s.n; i++) {
        const int64_t k = i > 0 ? i - 1 : 0;
        draw_segment(c, dot_x(c, f, s.x[k]), dot_y(c, f, s.y[k]), dot_x(c, f, s.x[i]),
                dot_y(c, f, s.y[i]), run);
    }
}

static void draw_points(canvas *c, const frame *f, const plot_series *s, int run,
        const char *mark) {
    for (int64_t i = 0; i < s->n; i++) {
        const int x = dot_x(c, f, s->x[i]) / c->dots_x, y = dot_y(c, f, s->y[i]) / c->dots_y;
        if (x < 0 || y < 0 || x >= c->columns || y >= c->rows) continue;
        c->mark[y * c->columns + x] = mark;
        c->owner[y * c->columns + x] = (signed char)run;
    }
}

// --- printing
static void add_cell(const canvas *c, int cell, const plot_terminal_opts *opts, str *out) {
    static const char *const letters[] = {"a", "b", "c", "d", "e", "f"};
    static const int colours[] = {34, 31, 32, 35, 33, 36};
    const int run = c->owner[cell];
    if (run < 0) {
        str_puts(out, " ");
        return;
    }
    if (opts->colour) str_printf(out, "\033[%dm", colours[run % 6]);
    if (c->mark[cell]) {
        str_puts(out, c->mark[cell]);
    } else if (opts->utf8) { // U+2800 + bits
        const char braille[] = {(char)0xe2, (char)(0xa0 | c->dots[cell] >> 6),
                (char)(0x80 | (c->dots[cell] & 0x3f)), 0};
        str_puts(out, braille);
    } else {
        str_puts(out, letters[run % 6]);
    }
    if (opts->colour) str_puts(out, "\033[0m");
}

// Returns the number of the tick in a row of cells, "" for none. The lowest row includes its lower
// edge, so that an axis that begins at 0 shows it.
static const char *row_label(const frame *f, int row, int rows, double step) {
    const double value = f->y.max - (row + 0.5) / rows * (f->y.max - f->y.min),
                 tick = step * round(value / step);
    const int row_of_tick = (int)floor((1 - plot_range_share(&f->y, tick)) * rows + 1e-9);
    return row_of_tick == row || (row_of_tick == rows && row == rows - 1) ? plot_number(tick) : "";
}

static void add_x_axis(const frame *f, int left, int columns, const plot_terminal_opts *opts,
        str *out) {
    str_printf(out, "%*s %s", left, "", opts->utf8 ? "└" : "+");
    for (int i = 0; i < columns; i++)
        str_puts(out, opts->utf8 ? "─" : "-");
    str_printf(out, "\n%*s  ", left, "");
    const double step = plot_tick_step(&f->x, columns / 12 + 1);
    int printed = 0;
    for (double tick = ceil(f->x.min / step) * step; tick <= f->x.max; tick += step) {
        const char *text = plot_number(tick);
        const int column = (int)(plot_range_share(&f->x, tick) * (columns - 1));
        if (column < printed || column + (int)strlen(text) > columns) continue;
        str_printf(out, "%*s%s", column - printed, "", text);
        printed = column + (int)strlen(text) + 1;
        str_puts(out, " ");
    }
    if (printed + 4 <= columns) str_printf(out, "%*s%s", columns - 4 - printed, "", "step");
    str_puts(out, "\n");
}

static void add_legend(const plot *p, int key, int points, const plot_terminal_opts *opts,
        str *out) {
    for (int r = 0; r < p->n_runs; r++) {
        const plot_series *s = &p->runs[r].series[key],
                          *valid = points >= 0 ? &p->runs[r].series[points] : NULL;
        str line = {0};
        str_printf(&line, "  %c  ", 'a' + r % 6);
        text_add_clean(&line, p->runs[r].name, false);
        if (s->n > 0)
            str_printf(&line, "  %s at step %s", plot_number(s->y[s->n - 1]),
                    plot_number(s->x[s->n - 1]));
        else
            str_puts(&line, "  nothing yet");
        if (valid && valid->n > 0)
            str_printf(&line, ", validation (o) %s", plot_number(valid->y[valid->n - 1]));
        str_add(out, line.p, text_fit(line.p, opts->columns));
        str_puts(out, "\n");
        str_free(&line);
    }
}

// --- a panel: one key of all runs; `points`: a second key, drawn as circles; -1: none
static frame frame_of(arena *a, const plot *p, int key, int points, int columns) {
    frame f = {plot_range_empty(), plot_range_empty()};
    for (int r = 0; r < p->n_runs; r++)
        for (int k = 0; k < p->n_keys; k++) {
            if (k != key && k != points) continue;
            const plot_series *all = &p->runs[r].series[k], s = plot_means(a, all, columns);
            for (int64_t i = 0; i < s.n; i++)
                plot_range_add(&f.y, s.y[i]);
            if (all->n > 0) plot_range_add(&f.x, all->x[0]);
            if (all->n > 0) plot_range_add(&f.x, all->x[all->n - 1]);
        }
    plot_range_close(&f.y, strcmp(p->keys[key], "loss") != 0);
    plot_range_close_tight(&f.x);
    return f;
}

// Returns the columns that the numbers of the y axis take.
static int label_columns(const frame *f, int rows, double step) {
    int most = 1;
    for (int row = 0; row < rows; row++) {
        const int n = (int)strlen(row_label(f, row, rows, step));
        if (n > most) most = n;
    }
    return most < MAX_LEFT ? most : MAX_LEFT;
}

// With several runs, the letter of each run stands at the end of its curve.
static void draw_runs(arena *a, canvas *c, const frame *f, const plot *p, int key, int points) {
    static const char *const letters[] = {"a", "b", "c", "d", "e", "f"};
    for (int r = 0; r < p->n_runs; r++) {
        const plot_series *s = &p->runs[r].series[key];
        draw_curve(a, c, f, s, r);
        if (points >= 0) draw_points(c, f, &p->runs[r].series[points], r, "o");
        if (p->n_runs == 1 || s->n == 0) continue;
        const plot_series last = {s->x + s->n - 1, s->y + s->n - 1, 1, 1};
        draw_points(c, f, &last, r, letters[r % 6]);
    }
}

static void add_row(const canvas *c, int row, const char *label, int left,
        const plot_terminal_opts *opts, str *out) {
    str_printf(out, "%*s %s", left, label,
            opts->utf8 ? (*label ? "┤" : "│") : (*label ? "+" : "|"));
    for (int i = 0; i < c->columns; i++)
        add_cell(c, row * c->columns + i, opts, out);
    while (out->n > 0 && out->p[out->n - 1] == ' ')
        out->p[--out->n] = 0;
    str_puts(out, "\n");
}

static void add_panel(arena *a, const plot *p, int key, int points, const plot_terminal_opts *opts,
        str *out) {
    const frame f = frame_of(a, p, key, points, opts->columns);
    const int rows = opts->rows > 6 ? opts->rows - 3 : 4;
    const double step = plot_tick_step(&f.y, rows / 3 + 1);
    const int left = label_columns(&f, rows, step);
    const int columns = opts->columns - left - 2 > 8 ? opts->columns - left - 2 : 8;
    canvas c = canvas_new(a, columns, rows, opts->utf8);
    draw_runs(a, &c, &f, p, key, points);
    str_printf(out, "%s\n", plot_title(p->keys[key]));
    for (int row = 0; row < rows; row++)
        add_row(&c, row, row_label(&f, row, rows, step), left, opts, out);
    add_x_axis(&f, left, columns, opts, out);
    add_legend(p, key, points, opts, out);
}

void plot_terminal(arena *a, const plot *p, const plot_terminal_opts *opts, str *out) {
    const int loss = plot_key(p, "loss"), valid = plot_key(p, "val_loss");
    for (int k = 0; k < p->n_keys; k++) {
        if (k == valid && loss >= 0) continue;
        if (out->n > 0) str_puts(out, "\n");
        add_panel(a, p, k, k == loss ? valid : -1, opts, out);
    }
}
