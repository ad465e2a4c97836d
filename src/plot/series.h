// Series of numbers from the metrics.jsonl of runs, and the ranges, ticks and means that drawings
// need.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum { PLOT_MAX_KEYS = 16 };

// Points in the order of their steps; both arrays have `n` of `cap` places used.
typedef struct plot_series {
    double *x, *y;
    int64_t n, cap;
} plot_series;

// The curves of one run: a series for each key, all in the arena into which they were read.
typedef struct plot_run {
    const char *name;                  // as given on the command line
    plot_series series[PLOT_MAX_KEYS]; // in the order of the keys
    int64_t n_records;                 // lines with a step
    int64_t n_broken;                  // lines that are not a JSON object with a step
} plot_run;

// Reads a metrics.jsonl; `path` is the file or its run directory. A last line without a line feed
// is still being written and is skipped. A repeated step replaces all earlier lines from that step
// on. Values that are not numbers (null: NaN) or beyond 1e100, which no axis can show, are gaps.
// DRV_E_IO: there is no such file.
DRV_CHECKED drv_status plot_read(arena *a, const char *path, const char *const *keys, int n_keys,
        plot_run *out);

// --- for drawing
typedef struct plot_range {
    double min, max; // min < max once it is closed
} plot_range;

plot_range plot_range_empty(void);
void plot_range_add(plot_range *r, double value);
// Adds a margin above and below, and begins at 0 if the values are near it; the range is not empty
// afterwards.
void plot_range_close(plot_range *r, bool from_zero);
// The same without a margin: the curves begin and end at the frame.
void plot_range_close_tight(plot_range *r);
double plot_range_share(const plot_range *r, double value); // 0 at min, 1 at max
// Returns the distance between about `n` ticks: 1, 2 or 5 times a power of ten.
double plot_tick_step(const plot_range *r, int n);
// Returns "0.0003", "2.5" or "12 k", in a buffer that the eighth next call of this thread reuses.
const char *plot_number(double value);

// Reduces a series to at most `n` points, the means of neighbours. The result lives in `a`.
plot_series plot_means(arena *a, const plot_series *s, int64_t n);
