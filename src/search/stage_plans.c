// Plans every rank of a pipeline.
#include "search/stage_plans.h"

#include "programs/stages.h"

static drv_status plan_rank(const run_config *cfg, stage_plans *s, int place) {
    arena *a = arena_new("a stage");
    programs p;
    double wire[N_AXES];
    const drv_status status = programs_plan(a, cfg, &p);
    if (status == DRV_OK) {
        programs_wire(&p, wire);
        step_work_take(&p, &s->work);
        s->bytes[place] = programs_memory(&p).total;
        for (int axis = 0; axis < N_AXES; axis++)
            if (wire[axis] > s->wire[axis]) s->wire[axis] = wire[axis];
        for (int axis = 0; axis < N_AXES; axis++)
            s->sent[place] += wire[axis];
    }
    arena_free(a);
    return status;
}

drv_status stage_plans_make(arena *a, bool ends, run_config *cfg, stage_plans *out) {
    const mesh m = run_mesh(cfg);
    const int n = m.size[AXIS_PIPELINE], stride = mesh_stride(&m, AXIS_PIPELINE);
    const pipeline_shape shape = stages_shape(cfg);
    *out = (stage_plans){.n = n,
            .layers = ARENA_ARRAY(a, int, n *shape.chunks),
            .bytes = ARENA_ARRAY(a, int64_t, n),
            .sent = ARENA_ARRAY(a, double, n),
            .work = step_work_new(a, cfg)};
    for (int place = 0; place < n; place++) {
        if (ends && place > 1 && place < n - 2) continue;
        cfg->rank = place * stride;
        DRV_TRY(plan_rank(cfg, out, place));
        if (out->bytes[place] > out->bytes[out->worst]) out->worst = place;
    }
    cfg->rank = out->worst * stride;
    layout_share_layers(&cfg->model, n * shape.chunks, out->layers);
    return stages_schedule(a, cfg, &out->schedule, &out->result);
}
