// Plans the layouts that the estimates put first, mesh after mesh, and keeps those that fit.
#include "search/layout_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "programs/fit.h"
#include "search/stage_plans.h"
#include "weights/process_bytes.h"

enum { MAX_TRIES = 8 }; // variants of one mesh that are planned

// --- planning one
typedef struct planned {
    int64_t bytes;
    double bubble, wire[N_AXES];
} planned;

static drv_status plan_whole(arena *a, const run_config *cfg, planned *out) {
    programs p;
    DRV_TRY(programs_plan(a, cfg, &p));
    *out = (planned){.bytes = programs_memory(&p).total};
    programs_wire(&p, out->wire);
    return DRV_OK;
}

static drv_status plan_pipeline(arena *a, run_config *cfg, planned *out) {
    stage_plans stages;
    DRV_TRY(stage_plans_make(a, true, cfg, &stages));
    *out = (planned){.bytes = stages.bytes[stages.worst], .bubble = stages.result.bubble};
    memcpy(out->wire, stages.wire, sizeof out->wire);
    return DRV_OK;
}

static double step_seconds(const layout_search *on, const layout_candidate *c,
        const run_config *cfg, const planned *made) {
    const double tokens = (double)(cfg->global_batch_size * cfg->sequence_length),
                 compute = on->flops.per_token[c->recompute] * tokens /
                           ((double)on->ranks * on->power.flops),
                 micro_batches = (double)(cfg->global_batch_size / (c->micro_batch * c->data));
    const mesh m = layout_mesh(c);
    double wire = 0;
    for (int axis = 0; axis < N_AXES; axis++) {
        const double seconds =
                link_axis_seconds(&on->power.links, &m, (mesh_axis)axis, made->wire[axis]);
        wire += axis == AXIS_DATA ? layout_exposed_seconds(cfg, seconds, compute / micro_batches)
                                  : seconds;
    }
    return compute / (1 - made->bubble) + wire +
           layout_update_seconds(cfg, &on->flops, &on->power, c);
}

// Plans what a layout takes and needs; DRV_E_USAGE: it is not possible after all.
drv_status layout_search_plan(const layout_search *s, layout_candidate *what) {
    arena *a = arena_new("a layout");
    run_config cfg = *s->cfg;
    planned made = {0};
    drv_status status = layout_candidate_apply(what, s->ranks, &cfg);
    if (status == DRV_OK)
        status = what->pipeline > 1 ? plan_pipeline(a, &cfg, &made) : plan_whole(a, &cfg, &made);
    if (status == DRV_OK) {
        what->bubble = made.bubble;
        what->seconds = step_seconds(s, what, &cfg, &made);
        what->planned_bytes = made.bytes + process_bytes(&cfg);
        what->bytes = (double)what->planned_bytes;
    }
    arena_free(a);
    return status;
}

// The first variant of the mesh at `first` that fits. *next: where the next mesh begins.
static bool find_variant(const layout_search *f, const layout_candidates *all, int first, int *next,
        layout_candidate *out) {
    int tries = 0;
    bool fits = false;
    for (*next = first; *next < all->n; ++*next) {
        if (!layout_same_mesh(&all->list[first], &all->list[*next])) break;
        layout_candidate c = all->list[*next];
        if (fits || tries == MAX_TRIES) continue;
        if (layout_search_plan(f, &c) != DRV_OK) continue;
        tries++;
        fits = c.bytes <= f->power.memory;
        if (fits) *out = c;
    }
    return fits;
}

static int by_seconds(const void *x, const void *y) {
    const layout_candidate *a = x, *b = y;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

// Shows how far a search is that takes longer than a second. It ends as soon as enough layouts fit.
static void show_progress(const layout_search *f, const layout_candidates *all, double begin) {
    const int tried = f->n + f->n_not, left = all->n_meshes - tried;
    const double seconds = clock_s() - begin;
    if (seconds < 1) return;
    progress("planning layouts: mesh %d of at most %d, %d fit, at most %s left", tried + 1,
            all->n_meshes, f->n, str_duration(seconds / tried * left));
}

// The estimates' order is nearly that of the plans: a few more are planned than listed.
static void plan_best(layout_search *f, const layout_candidates *all) {
    enum { MORE = 4 };
    const double begin = clock_s();
    f->list = mem_alloc(sizeof *f->list * (size_t)(f->top + MORE));
    for (int i = 0, next; i < all->n && f->n < f->top + MORE; i = next) {
        if (i > 0) show_progress(f, all, begin);
        if (find_variant(f, all, i, &next, &f->list[f->n]))
            f->n++;
        else
            f->n_not++;
    }
    progress_end();
    qsort(f->list, (size_t)f->n, sizeof *f->list, by_seconds);
    if (f->n > f->top) f->n = (int)f->top;
}

// Counts what a token costs, which does not depend on the layout.
static drv_status count_flops(layout_search *f) {
    for (int mode = RECOMPUTE_NONE; mode <= RECOMPUTE_FULL; mode++) {
        arena *a = arena_new("flops");
        run_config one = *f->cfg;
        programs p;
        config_one_rank(&one);
        one.micro_batch_size = 1;
        one.partial_sum_rows = 0;
        one.recompute = (recompute_mode)mode;
        const drv_status status = programs_build(a, &one, &p);
        if (status == DRV_OK) {
            f->flops.per_token[mode] = programs_flops_per_token(&p, true);
            f->flops.update = programs_update_flops(&p);
        }
        arena_free(a);
        DRV_TRY(status);
    }
    return DRV_OK;
}

drv_status layout_search_run(layout_search *s) {
    DRV_TRY(count_flops(s));
    layout_candidates_find(s->cfg, s->ranks, &s->flops, &s->power, &s->all);
    plan_best(s, &s->all);
    return DRV_OK;
}

void layout_search_free(layout_search *s) {
    layout_candidates_free(&s->all);
    free(s->list);
}
