// Counts the steps of a run by their duration: a histogram in Prometheus' form.
#pragma once
#include <stdint.h>

enum { N_STEP_BOUNDS = 16 };

typedef struct step_histogram {
    int64_t counts[N_STEP_BOUNDS +
                   1]; // steps up to each bound and above the previous one; last: longer ones
    int64_t n;         // all of them
    double sum_s;
} step_histogram;

double step_histogram_bound(int i); // seconds
void step_histogram_add(step_histogram *self,
        double step_s); // a value that is not a duration is ignored
