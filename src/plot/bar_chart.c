// Draws horizontal bars as an SVG: a line of text and a bar for each value, its least part darker
// than the rest, and an axis below.
#include <math.h>
#include <string.h>

#include "plot/chart.h"

enum {
    WIDTH = 960,
    MARGIN = 24,
    TOP = 64,    // title and legend
    BOTTOM = 44, // numbers at the axis
    ROW = 22,
    BAR = 15,
    NAMES = 250, // where bars begin
    NOTES = 250, // room beside the longest bar
};

static double bar_length(const plot_range *range, double value) {
    return (WIDTH - NAMES - NOTES) * plot_range_share(range, value);
}

static void add_bar(const plot_bar *bar, const plot_range *range, const char *colour, double y,
        str *out) {
    const double length = bar_length(range, bar->value),
                 least = bar->least < bar->value ? bar->least : bar->value;
    str_printf(out, "<text x=\"%d\" y=\"%.1f\" style=\"text-anchor:end\">", NAMES - 8, y + 12);
    plot_add_text(out, bar->name);
    str_printf(out,
            "</text>\n<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
            "fill-opacity=\".35\"/>\n",
            NAMES, y, length, BAR, colour);
    str_printf(out,
            "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n<text "
            "class=\"note\" x=\"%.1f\" y=\"%.1f\">",
            NAMES, y, bar_length(range, least), BAR, colour, NAMES + length + 8, y + 12);
    plot_add_text(out, bar->note);
    str_puts(out, "</text>\n");
}

static void add_axis(const plot_range *range, const char *unit, double y, str *out) {
    const double step = plot_tick_step(range, 6);
    str_printf(out, "<path class=\"axis\" d=\"M%d %.1fh%d\"/>\n", NAMES, y, WIDTH - NAMES - NOTES);
    for (double t = 0; t <= range->max; t += step)
        str_printf(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                NAMES + bar_length(range, t), y + 18, plot_number(t));
    str_printf(out, "<text class=\"x\" x=\"%d\" y=\"%.1f\">", NAMES + (WIDTH - NAMES - NOTES) / 2,
            y + 34);
    plot_add_text(out, unit);
    str_puts(out, "</text>\n");
}

// One square for each group, from the left.
static void add_groups(const plot_bar *bars, int n, str *out) {
    int group = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && strcmp(bars[i].group, bars[i - 1].group) == 0) continue;
        const int x = MARGIN + 130 * group;
        str_printf(out,
                "<rect x=\"%d\" y=\"38\" width=\"11\" height=\"11\" fill=\"%s\"/>\n"
                "<text x=\"%d\" y=\"48\">",
                x, plot_colour(group++), x + 17);
        plot_add_text(out, bars[i].group);
        str_puts(out, "</text>\n");
    }
}

void plot_bars_svg(const char *title, const char *unit, const plot_bar *bars, int n, str *out) {
    const int height = TOP + ROW * n + BOTTOM;
    plot_range range = {.min = 0, .max = 0};
    for (int i = 0; i < n; i++)
        range.max = fmax(range.max, bars[i].value);
    if (range.max <= 0) range.max = 1;
    str_printf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\">\n<style>\n%s</style>\n<rect width=\"%d\" height=\"%d\" "
            "fill=\"#fff\"/>\n<text class=\"title\" x=\"%d\" y=\"24\">",
            WIDTH, height, WIDTH, height, plot_style(), WIDTH, height, MARGIN);
    plot_add_text(out, title);
    str_puts(out, "</text>\n");
    add_groups(bars, n, out);
    for (int i = 0, group = 0; i < n; i++) {
        group += i > 0 && strcmp(bars[i].group, bars[i - 1].group) != 0;
        add_bar(&bars[i], &range, plot_colour(group), TOP + ROW * i, out);
    }
    add_axis(&range, unit, TOP + ROW * n + 2, out);
    str_puts(out, "</svg>\n");
}
