// A series of numbers in bounded memory, drawn as a row of small bars.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { SPARK_POINTS = 256 };

// Zero-initialise. A series longer than SPARK_POINTS keeps means of 2, 4, 8 ... neighbours.
typedef struct spark {
    double mean[SPARK_POINTS];
    int64_t n_values;  // that were added
    int64_t per_point; // values in each mean; the last may have fewer
    int n_points;
} spark;

void spark_add(spark *s, double value); // NaN and infinity are left out
// Appends at most `columns` bars from the lowest to the highest value; ASCII where bars cannot be
// shown. Nothing is appended for fewer than two values.
void spark_draw(const spark *series, int columns, bool utf8, str *out);
