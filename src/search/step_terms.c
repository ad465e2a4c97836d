// Sorts nodes into terms as search/work.c does for plans.
#include "search/step_terms.h"

#include <math.h>
#include <string.h>

#include "base/memory_limit.h"
#include "ir/op.h"
#include "plan/plan.h"
#include "search/device_measure.h"

static drv_status device_of(arena *a, const run_config *cfg, double peak_flops,
        device_profile *out) {
    const link_speeds links = {UNKNOWN_LINK, UNKNOWN_LINK, 0};
    if (*cfg->device)
        DRV_TRY_CTX(device_profile_read(a, cfg->device, out), "%s: device",
                config_where(cfg, "device"));
    else
        *out = device_profile_by_hand("the measured peak", peak_flops, memory_limit_read("").free,
                &links);
    return DRV_OK;
}

drv_status step_terms_plan(arena *a, const run_config *cfg, const programs *p, double peak_flops,
        device_profile *device, step_cost *out) {
    run_config own = *cfg;
    stage_plans stages;
    step_work whole = step_work_new(a, cfg);
    DRV_TRY(device_of(a, cfg, peak_flops, device));
    if (cfg->pipeline_parallel > 1) {
        DRV_TRY(stage_plans_make(a, true, &own, &stages));
        return step_cost_make(a, &own, &stages.work, &stages.shape, device, out);
    }
    step_work_take(p, &whole);
    return step_cost_make(a, cfg, &whole, NULL, device, out);
}

static step_term term_of_axis(mesh_axis axis) {
    return axis == AXIS_TENSOR ? TERM_TENSOR : axis == AXIS_CONTEXT ? TERM_CONTEXT : TERM_DATA;
}

static step_term term_of(const graph *g, const node *n) {
    const op_row *row = op_rows[n->op];
    double wire[N_AXES] = {0};
    if (n->phase == PHASE_UPDATE && !row->collective) return TERM_UPDATE;
    if (row->flops)
        return row->flops_of == FLOPS_ATTENTION ? TERM_ATTENTION
               : row->flops_of == FLOPS_HEAD    ? TERM_HEAD
                                                : TERM_PRODUCTS;
    plan_add_wire(g, n, wire);
    for (int axis = 0; axis < N_AXES; axis++)
        if (wire[axis] > 0) return term_of_axis((mesh_axis)axis);
    return TERM_MEMORY;
}

void step_terms_measure(const programs *p, double step_s, double out[N_STEP_TERMS]) {
    double nodes_s = 0;
    memset(out, 0, sizeof *out * N_STEP_TERMS);
    for (int i = 0; i < p->held.n_all; i++) {
        const built_program *built = &p->held.all[i];
        int64_t n_runs;
        const double *seconds = backend_node_seconds(p->held.b, *built->run, &n_runs);
        for (int k = 0; k < built->graph->n_nodes && n_runs > 0; k++) {
            if (!(seconds[k] > 0)) continue;
            out[term_of(built->graph, built->graph->nodes[k])] += seconds[k];
            nodes_s += seconds[k];
        }
    }
    out[p->n_stages ? TERM_BUBBLE : TERM_LAUNCHES] += fmax(step_s - nodes_s, 0);
}

json_t *step_terms_json(const step_cost *cost) {
    json_t *terms = json_object();
    for (step_term t = 0; t < N_STEP_TERMS; t++)
        json_object_set_new(terms, step_term_name(t), json_real(cost->term[t]));
    return terms;
}
