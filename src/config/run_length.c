// Computes the length of a run and its warm-up from training.steps or training.epochs and
// schedule.warmup_steps or schedule.warmup_ratio, and the resolved values of `auto`.
#include <float.h>
#include <math.h>

#include "config/config_internal.h"
#include "config/key.h"

// Rounds up, but not by a step for a rounding error: a product of decimal fractions may be slightly
// above the intended whole number.
static double without_rounding(double product) {
    return product - 4 * DBL_EPSILON * product;
}

static int64_t whole_steps(double steps) {
    return (int64_t)fmin(ceil(without_rounding(steps)), NO_MAX);
}

void config_count_steps(run_config *cfg, int64_t epoch_rows, int64_t step, int64_t taken) {
    if (!(cfg->epochs > 0)) return;
    const double left = without_rounding(cfg->epochs * (double)epoch_rows) - (double)taken;
    const double more = left > 0 ? ceil(left / (double)cfg->global_batch_size) : 0;
    cfg->steps = (int64_t)fmin((double)step + more, NO_MAX);
}

const char *config_length_key(const run_config *cfg) {
    return cfg->epochs > 0 ? "training.epochs" : "training.steps";
}

int64_t config_warmup_steps(const run_config *cfg) {
    enum { AUTO_MOST = 100, AUTO_SHARE = 10 };
    if (cfg->warmup_steps >= 0) return cfg->warmup_steps;
    if (cfg->warmup_ratio >= 0) return whole_steps(cfg->warmup_ratio * (double)cfg->steps);
    const int64_t share = cfg->steps / AUTO_SHARE;
    return share < AUTO_MOST ? share : AUTO_MOST;
}

drv_status config_check_length(run_config *cfg) {
    enum { DEFAULT_STEPS = 1000 };
    if (cfg->epochs > 0 && cfg->given_steps >= 0)
        return drv_fail(DRV_E_USAGE,
                "%s: training.epochs %g and training.steps %lld (%s) exclude each other: give one of "
                "them",
                config_where(cfg, "training.epochs"), cfg->epochs, (long long)cfg->given_steps,
                config_where(cfg, "training.steps"));
    if (cfg->warmup_ratio >= 0 && cfg->warmup_steps >= 0)
        return drv_fail(DRV_E_USAGE,
                "%s: schedule.warmup_ratio %g and schedule.warmup_steps %lld (%s) exclude each other: "
                "give one of them",
                config_where(cfg, "schedule.warmup_ratio"), cfg->warmup_ratio,
                (long long)cfg->warmup_steps, config_where(cfg, "schedule.warmup_steps"));
    if (cfg->epochs > 0) return DRV_OK; // the rows of the data are not known yet
    cfg->steps = cfg->given_steps >= 0 ? cfg->given_steps : DEFAULT_STEPS;
    return DRV_OK;
}
