// Plans the rank that holds most, and predicts the time of its steps.
#include "search/run_plan.h"

#include <math.h>
#include <string.h>

#include "search/host_profile.h"
#include "search/step_time.h"
#include "setup/process_bytes.h"

drv_status run_plan_make(arena *a, run_config *cfg, run_plan *out) {
    *out = (run_plan){.cfg = cfg, .is_pipeline = cfg->pipeline_parallel > 1};
    if (out->is_pipeline) DRV_TRY(stage_plans_make(a, false, cfg, &out->stages));
    DRV_TRY(programs_plan(a, cfg, &out->programs));
    out->memory = programs_memory(&out->programs);
    programs_wire(&out->programs, out->wire);
    if (out->programs.layout.mesh.groups)
        out->between_groups = held_find(&out->programs.held, "update")->plan->wire_bytes[AXIS_DATA];
    out->process = process_bytes(cfg);
    out->mesh = run_mesh(cfg);
    out->n_ranks = mesh_ranks(&out->mesh);
    for (int axis = 0; axis < N_AXES; axis++)
        out->sent += out->wire[axis];
    for (int i = 0; i < out->stages.n; i++)
        out->sent = fmax(out->sent, out->stages.sent[i]);
    if (out->is_pipeline) memcpy(out->wire, out->stages.wire, sizeof out->wire);
    out->flops_per_token = programs_flops_per_token(&out->programs, false);
    out->recomputed_per_token =
            programs_flops_per_token(&out->programs, true) - out->flops_per_token;
    return DRV_OK;
}

double run_plan_step_flops(const run_plan *planned) {
    return planned->flops_per_token *
           (double)(planned->cfg->global_batch_size * planned->cfg->sequence_length);
}

double run_plan_reference_flops(const run_plan *planned, int64_t n_rows) {
    return programs_eval_flops_per_token(&planned->programs) *
           (double)(n_rows * planned->cfg->sequence_length);
}

int64_t run_plan_needs(const run_plan *planned) {
    return planned->memory.total + planned->process;
}

drv_status run_plan_cost(arena *a, const run_plan *planned, const device_profile *device,
        step_cost *out) {
    const run_config *cfg = planned->cfg;
    if (planned->is_pipeline)
        return step_cost_make(a, cfg, &planned->stages.work, &planned->stages.shape, device, out);
    step_work whole = step_work_new(a, cfg);
    step_work_take(&planned->programs, &whole);
    return step_cost_make(a, cfg, &whole, NULL, device, out);
}

drv_status run_plan_time(arena *a, const run_plan *planned, const memory_limit *limit,
        run_plan_times *out) {
    const run_config *cfg = planned->cfg;
    *out = (run_plan_times){0};
    DRV_TRY(host_profile(cfg, &out->device));
    out->device.fp8_flops = out->device.bf16_flops; // which computes fp8 in bf16
    out->device.reached_fp8 = out->device.reached_products;
    DRV_TRY(run_plan_cost(a, planned, &out->device, &out->cost));
    out->step_s = out->cost.seconds;
    // One rank cannot run what several share.
    if (cfg->tensor_parallel * cfg->pipeline_parallel * cfg->context_parallel == 1)
        DRV_TRY(step_rehearse(a, cfg, limit, out->step_s, &out->step_s, &out->is_measured));
    out->run_s = out->step_s * (double)cfg->steps;
    return DRV_OK;
}
