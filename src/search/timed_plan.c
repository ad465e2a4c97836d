// Plans a rank alone, or the ranks of a pipeline.
#include "search/timed_plan.h"

static drv_status plan_whole(arena *a, const run_config *cfg, const device_profile *device,
        timed_plan *out) {
    programs p;
    step_work all = step_work_new(a, cfg);
    DRV_TRY(programs_plan(a, cfg, &p));
    out->bytes = programs_memory(&p).total;
    step_work_take(&p, &all);
    return step_cost_make(a, cfg, &all, NULL, device, &out->cost);
}

static drv_status plan_pipeline(arena *a, run_config *cfg, const device_profile *device,
        timed_plan *out) {
    stage_plans stages;
    DRV_TRY(stage_plans_make(a, true, cfg, &stages));
    out->bytes = stages.bytes[stages.worst];
    return step_cost_make(a, cfg, &stages.work, &stages.shape, device, &out->cost);
}

drv_status timed_plan_make(arena *a, run_config *cfg, const device_profile *device,
        timed_plan *out) {
    return cfg->pipeline_parallel > 1 ? plan_pipeline(a, cfg, device, out)
                                      : plan_whole(a, cfg, device, out);
}
