// Plans every rank of a pipeline.
#include "search/stage_plans.h"

#include "programs/stages.h"

static drv_status plan_rank(const run_config *cfg, bool outline, stage_plans *s, int place) {
    arena *a = arena_new("a stage");
    programs p;
    double wire[N_AXES];
    const drv_status status =
            outline ? programs_plan_outline(a, cfg, &p) : programs_plan(a, cfg, &p);
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

// Returns whether another rank holds as much: with ZB-H1 one of the last two, else the rank before
// it, which has no fewer micro-batches in flight, unless it has fewer layers in a chunk.
static bool is_covered(const stage_plans *s, int rank) {
    if (rank < 2 || rank > s->n - 2) return false;
    return s->shape.kind == PIPELINE_ZB_H1
                   ? rank < s->n - 2
                   : !layout_has_more_layers(s->layers, s->n, s->shape.chunks, rank);
}

// Ranks that were not planned do what the rank before does, for their own layers.
static void fill_work(stage_plans *s) {
    for (int place = 2; place < s->n - 1; place++)
        for (int v = 0; v < s->shape.chunks && is_covered(s, place); v++) {
            const int stage = v * s->n + place, like = stage - 1;
            const double times = s->layers[stage] / (double)s->layers[like];
            work_add(&s->work.forward[like], times, &s->work.forward[stage]);
            work_add(&s->work.backward[like], times, &s->work.backward[stage]);
        }
}

drv_status stage_plans_make(arena *a, bool ends, run_config *cfg, stage_plans *out) {
    const mesh ranks = run_mesh(cfg);
    const int n_ranks = ranks.size[AXIS_PIPELINE], stride = mesh_stride(&ranks, AXIS_PIPELINE);
    pipeline_shape shape;
    DRV_TRY(stages_find_shape(cfg, &shape));
    *out = (stage_plans){.shape = shape,
            .n = n_ranks,
            .layers = ARENA_ARRAY(a, int, n_ranks *shape.chunks),
            .bytes = ARENA_ARRAY(a, int64_t, n_ranks),
            .sent = ARENA_ARRAY(a, double, n_ranks),
            .work = step_work_new(a, cfg)};
    layout_share_layers(&cfg->model, n_ranks * shape.chunks, out->layers);
    for (int place = 0; place < n_ranks; place++) {
        if (ends && is_covered(out, place)) continue;
        cfg->rank = place * stride;
        DRV_TRY(plan_rank(cfg, ends, out, place));
        if (out->bytes[place] > out->bytes[out->worst]) out->worst = place;
    }
    cfg->rank = out->worst * stride;
    if (!ends) return stages_time(a, cfg, &out->result);
    fill_work(out);
    return DRV_OK;
}
