// Times the steps of a planned run by the profile of a device.
#include "search/device_plan.h"

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
