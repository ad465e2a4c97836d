// The stages of a pipeline in drover plan.
#include "cli/plan_stages.h"

#include <stdio.h>

#include "base/str.h"
#include "train/stages.h"

static drv_status plan_rank(const run_config *cfg, plan_stages *s, int place) {
    arena *a = arena_new("a stage");
    programs p;
    backend *null;
    double wire[N_AXES];
    drv_status status = backend_open(a, "null", &null);
    if (status == DRV_OK) status = programs_build(a, cfg, &p);
    if (status == DRV_OK) status = programs_load(a, null, &p);
    if (status == DRV_OK) {
        programs_wire(&p, wire);
        s->bytes[place] = programs_memory(&p).total;
        for (int axis = 0; axis < N_AXES; axis++)
            if (wire[axis] > s->wire[axis]) s->wire[axis] = wire[axis];
        for (int axis = 0; axis < N_AXES; axis++)
            s->sent[place] += wire[axis];
        backend_close(null);
    }
    arena_free(a);
    return status;
}

drv_status plan_stages_make(arena *a, bool ends, run_config *cfg, plan_stages *out) {
    const mesh m = programs_mesh(cfg);
    const int n = m.size[AXIS_PIPELINE], stride = mesh_stride(&m, AXIS_PIPELINE);
    const pipeline_shape shape = stages_shape(cfg);
    *out = (plan_stages){.n = n,
            .layers = ARENA_ARRAY(a, int, n *shape.chunks),
            .bytes = ARENA_ARRAY(a, int64_t, n),
            .sent = ARENA_ARRAY(a, double, n)};
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

void plan_stages_print(const plan_stages *s) {
    const pipeline_shape *shape = &s->schedule.shape;
    int peak = 0;
    for (int place = 0; place < s->n; place++)
        if (s->result.peak[place] > peak) peak = s->result.peak[place];
    printf("pipeline      %s, %d micro-batches: bubble %.1f %%, at most %d in flight%s\n",
            pipeline_kind_name(shape->kind), shape->micro_batches, 100 * s->result.bubble, peak,
            shape->chunks > 1 ? " (each on one of the chunks)" : "");
    for (int place = 0; place < s->n; place++) {
        printf("  rank %-6d  %12s  layers", place, str_bytes((double)s->bytes[place]));
        for (int v = 0; v < shape->chunks; v++) {
            int first = 0;
            const int stage = v * s->n + place;
            for (int i = 0; i < stage; i++)
                first += s->layers[i];
            printf(" %d-%d", first, first + s->layers[stage] - 1);
        }
        printf("%s%s%s\n", place == 0 ? ", embedding" : "", place == s->n - 1 ? ", head" : "",
                place == s->worst ? "  <- most, as below" : "");
    }
}

json_t *plan_stages_json(const plan_stages *s) {
    const pipeline_shape *shape = &s->schedule.shape;
    json_t *bytes = json_array(), *in_flight = json_array(), *layers = json_array(),
           *sent = json_array();
    for (int place = 0; place < s->n; place++) {
        json_array_append_new(bytes, json_integer(s->bytes[place]));
        json_array_append_new(in_flight, json_integer(s->result.peak[place]));
        json_array_append_new(sent, json_real(s->sent[place]));
    }
    for (int i = 0; i < s->n * shape->chunks; i++)
        json_array_append_new(layers, json_integer(s->layers[i]));
    return json_pack("{s:s,s:i,s:i,s:i,s:f,s:i,s:o,s:o,s:o,s:o}", "schedule",
            pipeline_kind_name(shape->kind), "ranks", s->n, "virtual_stages", shape->chunks,
            "micro_batches", shape->micro_batches, "bubble", s->result.bubble, "worst_rank",
            s->worst, "rank_bytes", bytes, "rank_wire_bytes", sent, "in_flight", in_flight,
            "stage_layers", layers);
}
