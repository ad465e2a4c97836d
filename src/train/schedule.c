// Computes the learning rate of a step.
#include "train/schedule.h"

#include <math.h>

#include "base/elementary.h"
#include "base/log.h"

// The warm-up gives step 1 the rate lr / warmup_steps, never 0. The decay starts at the peak and
// would reach min_lr one step after the last step, so that with min_lr 0 no step is wasted.
// torchtitan does both ("a virtual last step", torchtitan/components/lr_scheduler.py);
// transformers' get_cosine_schedule_with_warmup and Megatron-LM's OptimizerParamScheduler decay in
// the same way, but begin the warm-up with a step of rate 0 (schedule.warmup_like).
static double warmup_lr(const run_config *cfg, int64_t step, int64_t warmup) {
    const double done = (double)step, all = (double)warmup;
    switch (cfg->warmup_like) {
    case WARMUP_TRANSFORMERS: // get_linear_schedule_with_warmup counts steps from 0
        return cfg->lr * (done - 1) / all;
    case WARMUP_NEMO: // nemo/core/optim/lr_scheduler.py, WarmupPolicy
        return cfg->lr * done / (all + 1);
    case WARMUP_TORCHTITAN:
        break;
    }
    return cfg->lr * done / all;
}

double schedule_lr(const run_config *cfg, int64_t step) {
    const int64_t warmup = config_warmup_steps(cfg);
    if (step <= warmup) return warmup_lr(cfg, step, warmup);
    double begin = (double)warmup; // steps before the decay
    double end = (double)cfg->steps;
    if (cfg->schedule == SCHEDULE_CONSTANT) return cfg->lr;
    if (cfg->schedule == SCHEDULE_WSD) {
        const double decay =
                cfg->decay_steps ? (double)cfg->decay_steps : ceil((double)cfg->steps / 10);
        begin = fmax(begin, end - decay);
        if ((double)step <= begin) return cfg->lr;
    } else if (cfg->decay_steps) {
        end = begin + (double)cfg->decay_steps;
    }
    if ((double)step > end) return cfg->min_lr;
    const double x = ((double)step - 1 - begin) / (end - begin);
    const double share = cfg->schedule == SCHEDULE_COSINE
                                 ? 0.5 * (1 + drv_cos(3.14159265358979323846 * x))
                                 : 1 - x;
    return cfg->min_lr + (cfg->lr - cfg->min_lr) * share;
}

void schedule_warn(const run_config *cfg) {
    const int64_t warmup = config_warmup_steps(cfg);
    if (warmup <= cfg->steps) return;
    log_warn("the warm-up of %lld steps is longer than the run of %lld: the learning rate ends at %.3g of optimizer.lr %.3g; schedule.warmup_steps: auto takes a tenth of the steps",
            (long long)warmup, (long long)cfg->steps, schedule_lr(cfg, cfg->steps), cfg->lr);
}
