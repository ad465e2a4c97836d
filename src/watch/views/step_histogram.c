// Counts steps by their duration.
#include "watch/views/step_histogram.h"

// The bounds suit the smallest models on one machine and the largest on many: 2.5 per decade.
static const double bounds[N_STEP_BOUNDS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25,
        50, 100, 250, 500, 1000};

double step_histogram_bound(int i) {
    return bounds[i];
}

void step_histogram_add(step_histogram *self, double step_s) {
    int i = 0;
    if (!(step_s >= 0 && step_s < 1e9)) return;
    while (i < N_STEP_BOUNDS && step_s > bounds[i])
        i++;
    self->counts[i]++;
    self->n++;
    self->sum_s += step_s;
}
