// Plans the rank that holds most, and predicts the time of its steps.
#include "search/run_plan.h"

#include <math.h>
#include <string.h>

#include "search/step_time.h"
#include "setup/process_bytes.h"

drv_status run_plan_make(arena *a, run_config *cfg, run_plan *out) {
    *out = (run_plan){.cfg = cfg, .is_pipeline = cfg->pipeline_parallel > 1};
    if (out->is_pipeline) DRV_TRY(stage_plans_make(a, false, cfg, &out->stages));
    DRV_TRY(programs_plan(a, cfg, &out->programs));
    out->memory = programs_memory(&out->programs);
    programs_wire(&out->programs, out->wire);
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

drv_status host_peak(arena *a, double *flops_per_s, double *share) {
    backend *host;
    DRV_TRY(backend_open_host(a, &host));
    const drv_status status = backend_peak_flops(host, flops_per_s);
    *share = backend_expected_share(host);
    backend_close(host);
    return status;
}

// Returns the seconds of a step whose products reach `flops_per_s` on each rank.
static double step_seconds(const run_plan *planned, double flops_per_s) {
    const run_config *cfg = planned->cfg;
    const double tokens = (double)(cfg->global_batch_size * cfg->sequence_length / cfg->data_ranks),
                 sharing = (double)(cfg->tensor_parallel * cfg->pipeline_parallel *
                                    cfg->context_parallel),
                 busy = planned->is_pipeline ? 1 - planned->stages.result.bubble : 1;
    return (planned->flops_per_token + planned->recomputed_per_token) * tokens /
           (sharing * flops_per_s * busy);
}

drv_status run_plan_time(arena *a, const run_plan *planned, const memory_limit *limit,
        run_plan_times *out) {
    const run_config *cfg = planned->cfg;
    double peak;
    *out = (run_plan_times){0};
    DRV_TRY(host_peak(a, &peak, &out->peak_share));
    if (peak > 0) out->step_s = step_seconds(planned, out->peak_share * peak);
    // One rank cannot run what several share.
    if (cfg->tensor_parallel * cfg->pipeline_parallel * cfg->context_parallel == 1)
        DRV_TRY(step_rehearse(a, cfg, limit, out->step_s, &out->step_s, &out->is_measured));
    out->run_s = out->step_s * (double)cfg->steps;
    return DRV_OK;
}
