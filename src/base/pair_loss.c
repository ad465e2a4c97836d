// Logistic functions that neither overflow nor lose their small values.
#include "base/pair_loss.h"

#include <math.h>

#include "base/elementary.h"

static double softplus(double x) { // -log sigmoid(-x)
    return (x > 0 ? x : 0) + drv_log(1 + drv_exp(-fabs(x)));
}

static double sigmoid(double x) {
    const double e = drv_exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

double pair_loss(double margin, double smoothing) {
    return (1 - smoothing) * softplus(-margin) + smoothing * softplus(margin);
}

double pair_pull(double margin, double smoothing) {
    return (1 - smoothing) * sigmoid(-margin) - smoothing * sigmoid(margin);
}
