#include "train/schedule.h"

#include <math.h>

// The warm-up gives step 1 the rate lr / warmup_steps, never 0.
double schedule_lr(const run_config *c, int64_t step) {
    if (step <= c->warmup_steps) return c->lr * (double)step / (double)c->warmup_steps;
    double begin = (double)c->warmup_steps, end = (double)c->steps;
    if (c->schedule == SCHEDULE_CONSTANT) return c->lr;
    if (c->schedule == SCHEDULE_WSD) {
        double decay = c->decay_steps ? (double)c->decay_steps : ceil((double)c->steps / 10);
        begin = fmax(begin, end - decay);
        if ((double)step <= begin) return c->lr;
    }
    if ((double)step >= end) return c->min_lr;
    double x = ((double)step - begin) / (end - begin);
    double share =
            c->schedule == SCHEDULE_COSINE ? 0.5 * (1 + cos(3.14159265358979323846 * x)) : 1 - x;
    return c->min_lr + (c->lr - c->min_lr) * share;
}
