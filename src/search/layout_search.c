// Plans the layouts with the best estimates, mesh by mesh, and keeps those that fit.
#include "search/layout_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "programs/fit.h"
#include "search/timed_plan.h"
#include "setup/process_bytes.h"

enum { MAX_TRIES = 24 }; // variants of one mesh that are planned
// Plans may be so much faster than their estimates.
#define FASTER 0.97
// The excess of an alike variant may be so much larger than that of another micro-batch.
#define UNLIKE 1.03

// Plans one layout; DRV_E_USAGE: it is not possible after all.
drv_status layout_search_plan(const layout_search *s, layout_candidate *what) {
    arena *a = arena_new("a layout");
    run_config cfg = *s->cfg;
    timed_plan made;
    drv_status status = layout_candidate_apply(what, s->ranks, &cfg);
    if (status == DRV_OK) status = timed_plan_make(a, &cfg, &s->device, &made);
    if (status == DRV_OK) {
        what->bubble = made.cost.bubble;
        what->seconds = made.cost.seconds;
        what->planned_bytes = made.bytes + (s->on_host ? process_bytes(&cfg) : 0);
        what->bytes = (double)what->planned_bytes;
    }
    arena_free(a);
    return status;
}

// Variants whose memory is estimated alike.
static bool is_alike(const layout_candidate *x, const layout_candidate *y) {
    return x->recompute == y->recompute && x->schedule == y->schedule &&
           x->sequence == y->sequence && x->zero == y->zero && x->zero_group == y->zero_group;
}

// The excess over its estimate that alike variants showed; 1: not known.
static double excess_of(const layout_candidate *tried, const double *excess, int n,
        const layout_candidate *c) {
    double most = 1;
    for (int i = 0; i < n; i++)
        if (is_alike(&tried[i], c)) most = fmax(most, excess[i]);
    return most;
}

// The fastest variant of the mesh at `first` that fits. *next: where the next mesh begins. Variants
// are planned in the order of their estimates, until none is left that may be faster; those are
// passed over of which an alike one needed so much more than its estimate that they cannot fit.
static bool find_variant(const layout_search *made, const layout_candidates *all, int first,
        int *next, layout_candidate *out) {
    const double memory = (double)made->device.memory;
    layout_candidate tried[MAX_TRIES];
    double excess[MAX_TRIES];
    int tries = 0;
    bool fits = false;
    for (*next = first; *next < all->n; ++*next) {
        if (!layout_same_mesh(&all->list[first], &all->list[*next])) break;
        layout_candidate c = all->list[*next];
        const double estimated = c.bytes;
        if (tries == MAX_TRIES || (fits && FASTER * c.seconds > out->seconds)) continue;
        if (estimated * excess_of(tried, excess, tries, &c) > UNLIKE * memory) continue;
        if (layout_search_plan(made, &c) != DRV_OK) continue;
        excess[tries] = c.bytes / estimated;
        tried[tries++] = c;
        if (c.bytes > memory || (fits && c.seconds >= out->seconds)) continue;
        fits = true;
        *out = c;
    }
    return fits;
}

static int by_seconds(const void *x, const void *y) {
    const layout_candidate *a = x, *b = y;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

// Shows the progress of a search that takes longer than a second. It ends once enough layouts fit.
static void show_progress(const layout_search *f, const layout_candidates *all, double begin) {
    const int tried = f->n + f->n_not, left = all->n_meshes - tried;
    const double seconds = clock_s() - begin;
    if (seconds < 1) return;
    progress("planning layouts: mesh %d of at most %d, %d fit, at most %s left", tried + 1,
            all->n_meshes, f->n, str_duration(seconds / tried * left));
}

// Ends when no mesh that is left is estimated to be faster than the last one that is wanted.
static void plan_best(layout_search *f, const layout_candidates *all) {
    const double begin = clock_s();
    int room = 0;
    for (int i = 0, next; i < all->n; i = next) {
        if (f->n >= f->top && FASTER * all->list[i].seconds > f->list[f->top - 1].seconds) break;
        if (i > 0) show_progress(f, all, begin);
        layout_candidate found;
        if (!find_variant(f, all, i, &next, &found)) {
            f->n_not++;
            continue;
        }
        MEM_GROW(f->list, f->n, room);
        f->list[f->n++] = found;
        qsort(f->list, (size_t)f->n, sizeof *f->list, by_seconds);
    }
    progress_end();
    if (f->n > f->top) f->n = (int)f->top;
}

// Counts the FLOPs per token, which do not depend on the layout.
static drv_status count_flops(layout_search *f) {
    arena *a = arena_new("flops");
    run_config one = *f->cfg;
    programs p;
    config_one_rank(&one);
    one.micro_batch_size = 1;
    one.partial_sum_rows = 0;
    const drv_status status = programs_build(a, &one, &p);
    if (status == DRV_OK) f->flops_per_token = programs_flops_per_token(&p, false);
    arena_free(a);
    return status;
}

drv_status layout_search_run(layout_search *s) {
    DRV_TRY(count_flops(s));
    layout_candidates_find(s->cfg, s->ranks, &s->device, &s->pinned, &s->all);
    plan_best(s, &s->all);
    return DRV_OK;
}

double layout_search_mfu(const layout_search *s, const layout_candidate *c) {
    return layout_tokens_per_s(s->cfg, c) * s->flops_per_token /
           ((double)s->ranks * s->device.bf16_flops);
}

void layout_search_free(layout_search *s) {
    layout_candidates_free(&s->all);
    free(s->list);
}
