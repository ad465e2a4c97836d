// Counts how long the steps of a run took, by length: a histogram as Prometheus has it.
#pragma once
#include <stdint.h>

enum { N_STEP_BOUNDS = 16 };

typedef struct step_histogram {
    int64_t counts[N_STEP_BOUNDS + 1]; // of steps up to each bound and above the one before; longer
    int64_t n;                         // all of them
    double sum_s;
} step_histogram;

double step_histogram_bound(int i);                           // seconds
void step_histogram_add(step_histogram *self, double step_s); // what is no length is left out
