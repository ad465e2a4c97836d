// The terms of a step's time, as a table and as JSON.
#include "cli/plan_device.h"

#include <stdio.h>

#include "base/str.h"

drv_status device_plan_make(arena *a, const char *device, const run_plan *planned,
        device_plan *out) {
    const run_config *cfg = planned->cfg;
    *out = (device_plan){.tokens_per_s = 0};
    DRV_TRY(device_profile_read(a, device, &out->device));
    DRV_TRY(device_profile_check_ranks(&out->device, planned->n_ranks));
    DRV_TRY(run_plan_cost(a, planned, &out->device, &out->cost));
    out->tokens_per_s = (double)(cfg->global_batch_size * cfg->sequence_length) / out->cost.seconds;
    out->mfu = out->tokens_per_s * planned->flops_per_token /
               (planned->n_ranks * out->device.bf16_flops);
    return DRV_OK;
}

void device_plan_advise(arena *a, const run_plan *planned, device_plan *out) {
    out->n_advice = step_advice_find(a, planned->cfg, &out->device, &out->cost,
            planned->memory.total, out->advice);
}

void step_terms_print(const step_cost *cost) {
    for (step_term t = 0; t < N_STEP_TERMS; t++)
        if (cost->term[t] >= 5e-4 * cost->seconds)
            printf("  %-11s %10.4g s %6.1f %%\n", step_term_name(t), cost->term[t],
                    100 * cost->term[t] / cost->seconds);
}

void device_plan_print(const device_plan *d, int ranks, int64_t steps) {
    const step_cost *c = &d->cost;
    printf("device        %s, %d of them\n", d->device.name, ranks);
    printf("step          %.4g s, %s tokens/s, %s a rank, %.1f %% MFU\n", c->seconds,
            str_si(d->tokens_per_s), str_si(d->tokens_per_s / ranks), 100 * d->mfu);
    step_terms_print(c);
    for (int i = 0; i < d->n_advice; i++)
        printf("%-13s --set %s: %.1f %% more tokens/s, less time for %s\n", i ? "" : "faster with",
                d->advice[i].setting, 100 * (d->advice[i].faster - 1),
                step_term_name(d->advice[i].term));
    const double hours = c->seconds * (double)steps / 3600;
    printf("time          %s for %lld step%s; evaluations and checkpoints not counted\n",
            str_long_duration(3600 * hours), (long long)steps, str_plural(steps));
    if (d->device.price_per_hour > 0)
        printf("cost          %.2f, at %g an hour for each rank\n",
                hours * ranks * d->device.price_per_hour, d->device.price_per_hour);
}
