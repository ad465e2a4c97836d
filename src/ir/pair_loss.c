// Logistic functions that neither overflow nor lose their small values.
#include "ir/pair_loss.h"

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

pair_sums pair_sums_of(int64_t n, const double *log_probs, const double *references, double beta,
        double smoothing) {
    pair_sums out = {0};
    for (int64_t i = 0; i < 2 * n; i += 2) {
        if (isnan(log_probs[i])) continue;
        const double chosen = beta * (log_probs[i] - references[i]),
                     rejected = beta * (log_probs[i + 1] - references[i + 1]);
        out.n++;
        out.right += chosen > rejected;
        out.loss += pair_loss(chosen - rejected, smoothing);
        out.chosen += chosen;
        out.rejected += rejected;
    }
    return out;
}
