// A series of numbers, kept at a bounded size, and drawn as a row of small bars.
#include "base/spark.h"

#include <math.h>

// Replaces points 2i and 2i + 1 by their mean for each i, which halves the resolution and makes
// room for as many new points.
static void merge_pairs(spark *s) {
    for (int i = 0; i < SPARK_POINTS / 2; i++)
        s->mean[i] = (s->mean[2 * i] + s->mean[2 * i + 1]) / 2;
    s->n_points = SPARK_POINTS / 2;
    s->per_point *= 2;
}

void spark_add(spark *s, double value) {
    if (!isfinite(value)) return;
    if (s->per_point == 0) s->per_point = 1;
    const int64_t in_last = s->n_values % s->per_point;
    if (in_last == 0) {
        if (s->n_points == SPARK_POINTS) merge_pairs(s);
        s->mean[s->n_points++] = 0;
    }
    double *last = &s->mean[s->n_points - 1];
    const double n = (double)(s->n_values % s->per_point);
    *last = (*last * n + value) / (n + 1);
    s->n_values++;
}

void spark_draw(const spark *series, int columns, bool utf8, str *out) {
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
    enum { LEVELS = sizeof bars / sizeof *bars };
    const int n = series->n_points < columns ? series->n_points : columns;
    if (n < 2) return;
    double value[SPARK_POINTS], low = HUGE_VAL, high = -HUGE_VAL;
    for (int i = 0; i < n; i++) {
        const int first = (int)((int64_t)i * series->n_points / n),
                  end = (int)((int64_t)(i + 1) * series->n_points / n);
        value[i] = 0;
        for (int k = first; k < end; k++)
            value[i] += series->mean[k] / (end - first);
        low = fmin(low, value[i]);
        high = fmax(high, value[i]);
    }
    for (int i = 0; i < n; i++) {
        const double share = high > low ? (value[i] - low) / (high - low) : 0;
        const int level = (int)lrint(share * (LEVELS - 1));
        str_puts(out, utf8 ? bars[level] : ascii[level]);
    }
}
