// Reads series of numbers from metrics.jsonl; ranges and ticks of axes.
#include "plot/series.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/json_lines.h"

static void add_point(arena *a, plot_series *s, double x, double y) {
    int64_t cap = s->cap; // of both lists
    ARENA_GROW(a, s->x, s->n, cap);
    ARENA_GROW(a, s->y, s->n, s->cap);
    s->x[s->n] = x;
    s->y[s->n++] = y;
}

// A resumed run repeats a step: drops the points from that step on.
static void cut_from(plot_series *s, double x) {
    while (s->n > 0 && s->x[s->n - 1] >= x)
        s->n--;
}

static bool add_line(arena *a, const json_t *record, const char *const *keys, int n_keys,
        plot_run *run) {
    const json_t *step = json_object_get(record, "step");
    if (!json_is_integer(step)) return false;
    const double x = (double)json_integer_value(step);
    run->n_records++;
    for (int i = 0; i < n_keys; i++) {
        const json_t *value = json_object_get(record, keys[i]);
        if (!value) continue;
        cut_from(&run->series[i], x);
        if (json_is_number(value) && fabs(json_number_value(value)) <= 1e100)
            add_point(a, &run->series[i], x, json_number_value(value));
    }
    return true;
}

drv_status plot_read(arena *a, const char *path, const char *const *keys, int n_keys,
        plot_run *out) {
    DRV_ASSERT(n_keys <= PLOT_MAX_KEYS, "%d keys", n_keys);
    const char *file = file_is_dir(path) ? path_join(a, path, "metrics.jsonl") : path;
    json_lines lines;
    DRV_TRY(json_lines_open(file, file_is_dir(path), &lines));
    *out = (plot_run){.name = path};
    for (json_t *record; (record = json_lines_next(&lines)); json_decref(record))
        if (!add_line(a, record, keys, n_keys, out)) out->n_broken++;
    out->n_broken += lines.n_broken;
    const drv_status status = json_lines_status(&lines);
    json_lines_close(&lines);
    return status;
}

// --- ranges
plot_range plot_range_empty(void) {
    return (plot_range){HUGE_VAL, -HUGE_VAL};
}

void plot_range_add(plot_range *r, double value) {
    r->min = fmin(r->min, value);
    r->max = fmax(r->max, value);
}

void plot_range_close(plot_range *r, bool from_zero) {
    if (!(r->min <= r->max)) *r = (plot_range){0, 1};
    if (from_zero && r->min > 0 && r->min < 0.5 * r->max) r->min = 0;
    const double span = r->max - r->min, size = fmax(fabs(r->min), fabs(r->max));
    if (!(span > 1e-9 * size)) { // a constant curve is drawn in the middle
        const double half = size > 0 ? 0.1 * size : 1;
        r->min -= half;
        r->max += half;
        return;
    }
    if (r->min != 0) r->min -= 0.04 * span;
    r->max += 0.04 * span;
}

void plot_range_close_tight(plot_range *r) {
    const double size = fmax(fabs(r->min), fabs(r->max));
    if (!(r->max - r->min > 1e-9 * size)) plot_range_close(r, false);
}

double plot_range_share(const plot_range *r, double value) {
    return (value - r->min) / (r->max - r->min);
}

double plot_tick_step(const plot_range *r, int n) {
    const double rough = (r->max - r->min) / (n > 1 ? n : 1), power = pow(10, floor(log10(rough)));
    const double factor = rough / power;
    return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

const char *plot_number(double value) {
    static _Thread_local char buffers[8][32];
    static _Thread_local unsigned next;
    static const struct {
        double least;
        const char *unit;
    } units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e4, " k"}};
    char *text = buffers[next++ % 8];
    const double size = fabs(value);
    double scale = 1;
    const char *unit = "";
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (size >= units[i].least) {
            scale = units[i].least == 1e4 ? 1e3 : units[i].least;
            unit = units[i].unit;
            break;
        }
    snprintf(text, sizeof buffers[0], "%.4g%s", size < 1e-300 ? 0 : value / scale, unit);
    return text;
}

plot_series plot_means(arena *a, const plot_series *s, int64_t n) {
    if (s->n <= n) return *s;
    plot_series out = {ARENA_ARRAY(a, double, n), ARENA_ARRAY(a, double, n), n, n};
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = i * s->n / n, end = (i + 1) * s->n / n;
        for (int64_t k = first; k < end; k++) {
            out.x[i] += s->x[k] / (double)(end - first);
            out.y[i] += s->y[k] / (double)(end - first);
        }
    }
    return out;
}
