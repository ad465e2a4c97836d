// Curves as one SVG: a legend of the runs, a large panel for the first key, two panels per row
// for the others. A thin line shows every step, a thick one their moving mean, circles the
// evaluations.
#include <math.h>
#include <string.h>

#include "base/status_line.h"
#include "plot/chart.h"

enum {
    WIDTH = 960,
    MARGIN = 24,
    GAP = 24,
    FIRST_HEIGHT = 350,
    HEIGHT = 230,
    LEFT = 56, // of a panel: numbers of the y axis
    TOP = 30,  // title
    BOTTOM = 40,
    LEGEND_ROW = 22,
    RAW_POINTS = 1200,
    SMOOTH_POINTS = 300,
};

// Distinguishable with any colour vision (Okabe and Ito).
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
        "#56b4e9"};
enum { N_COLOURS = sizeof colours / sizeof *colours };

const char *plot_colour(int i) {
    return colours[i % N_COLOURS];
}

typedef struct panel {
    double x, y, width, height; // of the area inside the axes
    plot_range x_range, y_range;
} panel;

void plot_add_text(str *out, const char *text) {
    str clean = {0};
    text_add_clean(&clean, text, false);
    for (const char *p = clean.p ? clean.p : ""; *p; p++) {
        switch (*p) {
        case '&':
            str_puts(out, "&amp;");
            break;
        case '<':
            str_puts(out, "&lt;");
            break;
        case '>':
            str_puts(out, "&gt;");
            break;
        case '"':
            str_puts(out, "&quot;");
            break;
        default:
            str_add(out, p, 1);
        }
    }
    str_free(&clean);
}

static double x_of(const panel *p, double x) {
    return p->x + p->width * plot_range_share(&p->x_range, x);
}

static double y_of(const panel *p, double y) {
    return p->y + p->height * (1 - plot_range_share(&p->y_range, y));
}

// --- curves
// Draws the lowest and highest values of neighbours, alternating: a line through all points looks
// like this where several share a pixel.
static plot_series extremes(arena *a, const plot_series *s, int64_t n) {
    if (s->n <= 2 * n) return *s;
    plot_series out = {ARENA_ARRAY(a, double, 2 * n), ARENA_ARRAY(a, double, 2 * n), 2 * n, 2 * n};
    for (int64_t i = 0; i < n; i++) {
        int64_t low = i * s->n / n, high = low;
        for (int64_t k = low; k < (i + 1) * s->n / n; k++) {
            if (s->y[k] < s->y[low]) low = k;
            if (s->y[k] > s->y[high]) high = k;
        }
        const int64_t first = low < high ? low : high, second = low < high ? high : low;
        out.x[2 * i] = s->x[first], out.y[2 * i] = s->y[first];
        out.x[2 * i + 1] = s->x[second], out.y[2 * i + 1] = s->y[second];
    }
    return out;
}

// Computes the mean of up to n/60 points on each side, from running sums.
static plot_series moving_mean(arena *a, const plot_series *s) {
    const int64_t half = s->n / 60;
    if (half == 0) return *s;
    plot_series out = {s->x, ARENA_ARRAY(a, double, s->n), s->n, s->n};
    double *sum = ARENA_ARRAY(a, double, s->n + 1);
    for (int64_t i = 0; i < s->n; i++)
        sum[i + 1] = sum[i] + s->y[i];
    for (int64_t i = 0; i < s->n; i++) { // fewer at the ends, so that the window stays centred
        int64_t reach = half < i ? half : i;
        if (reach > s->n - 1 - i) reach = s->n - 1 - i;
        out.y[i] = (sum[i + reach + 1] - sum[i - reach]) / (double)(2 * reach + 1);
    }
    return out;
}

static void add_line(const panel *p, const plot_series *s, const char *colour, const char *class,
        str *out) {
    if (s->n == 0) return;
    str_printf(out, "<path class=\"%s\" stroke=\"%s\" d=\"", class, colour);
    for (int64_t i = 0; i < s->n; i++)
        str_printf(out, "%s%.1f %.1f", i ? "L" : "M", x_of(p, s->x[i]), y_of(p, s->y[i]));
    str_puts(out, "\"/>\n");
}

static void add_points(const panel *p, const plot_series *s, const char *colour, str *out) {
    for (int64_t i = 0; i < s->n; i++)
        str_printf(out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" stroke=\"%s\"><title>step %.0f: validation loss %.4f</title></circle>\n",
                x_of(p, s->x[i]), y_of(p, s->y[i]), colour, s->x[i], s->y[i]);
}

// --- axes
static void add_axes(const panel *p, const char *title, str *out) {
    str_printf(out, "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">", p->x, p->y - 12);
    plot_add_text(out, title);
    str_puts(out, "</text>\n");
    const double dy = plot_tick_step(&p->y_range, (int)(p->height / 32)),
                 dx = plot_tick_step(&p->x_range, (int)(p->width / 90));
    for (double t = ceil(p->y_range.min / dy) * dy; t <= p->y_range.max + 1e-9 * dy; t += dy) {
        const double y = y_of(p, t);
        str_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fh%.1f\"/>\n", p->x, y, p->width);
        str_printf(out, "<text class=\"y\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", p->x - 8, y + 4,
                plot_number(fabs(t) < 1e-9 * dy ? 0 : t));
    }
    for (double t = ceil(p->x_range.min / dx) * dx; t <= p->x_range.max + 1e-9 * dx; t += dx)
        str_printf(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x_of(p, t),
                p->y + p->height + 18, plot_number(t));
    str_printf(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">step</text>\n", p->x + p->width / 2,
            p->y + p->height + 34);
    str_printf(out, "<path class=\"axis\" d=\"M%.1f %.1fh%.1f\"/>\n", p->x, p->y + p->height,
            p->width);
}

static void find_ranges(arena *a, const plot *p, int key, int points, panel *out) {
    out->x_range = out->y_range = plot_range_empty();
    for (int r = 0; r < p->n_runs; r++)
        for (int k = 0; k < p->n_keys; k++) {
            if (k != key && k != points) continue;
            // The range is that of the means, so that a single spike does not flatten the rest.
            const plot_series *all = &p->runs[r].series[k], s = moving_mean(a, all);
            for (int64_t i = 0; i < s.n; i++)
                plot_range_add(&out->y_range, s.y[i]);
            if (all->n > 0) plot_range_add(&out->x_range, all->x[0]);
            if (all->n > 0) plot_range_add(&out->x_range, all->x[all->n - 1]);
        }
    plot_range_close(&out->y_range, strcmp(p->keys[key], "loss") != 0);
    plot_range_close_tight(&out->x_range);
}

static void add_panel(arena *a, const plot *runs, int key, int points, int index, double left,
        double top, double width, double height, str *out) {
    panel area = {.x = left + LEFT,
            .y = top + TOP,
            .width = width - LEFT - 8,
            .height = height - TOP - BOTTOM};
    find_ranges(a, runs, key, points, &area);
    str_printf(out,
            "<clipPath id=\"c%d\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n",
            index, area.x, area.y - 2, area.width + 2, area.height + 4);
    add_axes(&area, plot_title(runs->keys[key]), out);
    str_printf(out, "<g clip-path=\"url(#c%d)\">\n", index);
    for (int r = 0; r < runs->n_runs; r++) {
        const plot_series *s = &runs->runs[r].series[key];
        const plot_series raw = extremes(a, s, RAW_POINTS / 2), smooth = moving_mean(a, s),
                          thick = plot_means(a, &smooth, SMOOTH_POINTS);
        if (smooth.y != s->y) add_line(&area, &raw, plot_colour(r), "raw", out);
        add_line(&area, &thick, plot_colour(r), "mean", out);
    }
    str_puts(out, "</g>\n");
    for (int r = 0; r < runs->n_runs && points >= 0; r++)
        add_points(&area, &runs->runs[r].series[points], plot_colour(r), out);
}

// --- the whole drawing
static void add_legend(const plot *p, double y, str *out) {
    const int loss = plot_key(p, "loss"), valid = plot_key(p, "val_loss");
    for (int r = 0; r < p->n_runs; r++, y += LEGEND_ROW) {
        const plot_run *run = &p->runs[r];
        str_printf(out, "<path class=\"mean\" stroke=\"%s\" d=\"M%d %.1fh26\"/>\n", plot_colour(r),
                MARGIN, y - 4);
        str_printf(out, "<text class=\"run\" x=\"%d\" y=\"%.1f\">", MARGIN + 36, y);
        plot_add_text(out, run->name);
        str_puts(out, "<tspan class=\"note\" dx=\"14\">");
        const plot_series *first = &run->series[0];
        if (first->n == 0) str_puts(out, "nothing yet");
        if (loss >= 0 && run->series[loss].n > 0)
            str_printf(out, "loss %.4f at step %.0f", run->series[loss].y[run->series[loss].n - 1],
                    run->series[loss].x[run->series[loss].n - 1]);
        if (valid >= 0 && run->series[valid].n > 0)
            str_printf(out, ", validation %.4f", run->series[valid].y[run->series[valid].n - 1]);
        str_puts(out, "</tspan></text>\n");
    }
}

static const char style[] =
        "text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#444}\n"
        ".title{font-size:14px;font-weight:600;fill:#111}\n"
        ".run{font-weight:600;fill:#111}\n"
        ".note{font-weight:400;fill:#555}\n"
        ".x{text-anchor:middle;font-size:11px}\n"
        ".y{text-anchor:end;font-size:11px}\n"
        ".grid{stroke:#e6e6e6;fill:none}\n"
        ".axis{stroke:#888;fill:none}\n"
        ".raw{stroke-width:1;stroke-opacity:.28;fill:none}\n"
        ".mean{stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round;fill:none}\n"
        "circle{fill:#fff;stroke-width:2}\n";

const char *plot_style(void) {
    return style;
}

void plot_svg(arena *a, const plot *runs, str *out) {
    const int loss = plot_key(runs, "loss"), valid = plot_key(runs, "val_loss");
    int keys[PLOT_MAX_KEYS], n_series = 0;
    for (int k = 0; k < runs->n_keys; k++)
        if (k != valid || loss < 0) keys[n_series++] = k;
    const double top = MARGIN + LEGEND_ROW * runs->n_runs + 8;
    const int more_rows = n_series / 2; // below the first panel, two panels in each
    const double height = top + FIRST_HEIGHT + more_rows * (GAP + HEIGHT) + MARGIN;
    str_printf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\">\n",
            WIDTH, height, WIDTH, height);
    if (!runs->styled) str_printf(out, "<style>\n%s</style>\n", style);
    str_printf(out, "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", WIDTH, height);
    add_legend(runs, MARGIN + 10, out);
    const double inner = WIDTH - 2 * MARGIN;
    for (int i = 0; i < n_series; i++) {
        const int points = keys[i] == loss ? valid : -1;
        if (i == 0) {
            add_panel(a, runs, keys[i], points, i, MARGIN, top, inner, FIRST_HEIGHT, out);
            continue;
        }
        const bool alone =
                i == n_series - 1 && i % 2 == 1; // the last one of an odd number takes a whole row
        const double width = alone ? inner : (inner - GAP) / 2;
        const double x = MARGIN + (i % 2 == 0 ? width + GAP : 0);
        const double y = top + FIRST_HEIGHT + GAP + (i - 1) / 2 * (GAP + HEIGHT);
        add_panel(a, runs, keys[i], points, i, x, y, width, HEIGHT, out);
    }
    str_puts(out, "</svg>\n");
}

// Adds a table row: the run's name, its last step, and the last value of each key.
static void add_table_row(const plot_run *run, int n_keys, str *out) {
    double last_step = 0;
    for (int k = 0; k < n_keys; k++)
        if (run->series[k].n > 0)
            last_step = fmax(last_step, run->series[k].x[run->series[k].n - 1]);
    str_puts(out, "<tr><td>");
    plot_add_text(out, run->name);
    str_printf(out, "</td><td>%.0f</td>", last_step);
    for (int k = 0; k < n_keys; k++) {
        const plot_series *s = &run->series[k];
        str_printf(out, "<td>%s</td>", s->n > 0 ? plot_number(s->y[s->n - 1]) : "");
    }
    str_puts(out, "</tr>\n");
}

void plot_html(arena *a, const plot *runs, str *out) {
    str_puts(out,
            "<!DOCTYPE html>\n"
            "<html lang=\"en\">\n"
            "<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width\">\n"
            "<title>drover plot</title>\n"
            "<style>\n"
            "body{font:14px system-ui,sans-serif;color:#222;max-width:960px;margin:24px auto}\n"
            "svg{max-width:100%;height:auto}\n"
            "table{border-collapse:collapse;margin:8px 24px}\n"
            "td,th{padding:4px 14px 4px 0;text-align:right;border-bottom:1px solid #ddd}\n"
            "td:first-child,th:first-child{text-align:left}\n"
            "</style>\n");
    plot_svg(a, runs, out);
    str_puts(out, "<table>\n<tr><th>run</th><th>steps</th>");
    for (int k = 0; k < runs->n_keys; k++) {
        str_puts(out, "<th>last ");
        plot_add_text(out, plot_title(runs->keys[k]));
        str_puts(out, "</th>");
    }
    str_puts(out, "</tr>\n");
    for (int r = 0; r < runs->n_runs; r++)
        add_table_row(&runs->runs[r], runs->n_keys, out);
    str_puts(out, "</table>\n</html>\n");
}
