// Plans the layouts with the best estimates, mesh by mesh, and keeps those that fit. Each thread
// plans a mesh; the results are taken in the order of the meshes, so they do not depend on the
// threads.
#include "search/layout_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "programs/fit.h"
#include "search/layout_time.h"
#include "search/timed_plan.h"
#include "setup/process_bytes.h"

enum { MAX_TRIES = 24 };    // variants of one mesh that are planned
enum { MOST_AT_ONCE = 64 }; // meshes that the threads share at a time: enough to keep all busy
// The time of a variant is at least this share of its estimate.
#define FASTER 0.97
// Times whose ratio is closer to 1 are the same.
#define SAME   (1 - 1e-10)
// The memory of a variant is at least this share of its estimate. If a similar variant was planned,
// the ratio of plan and estimate is at least that variant's ratio, reduced by the share UNLIKE of
// its distance from 1 and by LITTLE.
#define LEAST  0.97
#define UNLIKE 0.5
#define LITTLE 0.001

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

// Returns whether the memory estimates of two variants are off by similar ratios.
static bool is_alike(const layout_candidate *x, const layout_candidate *y) {
    return x->recompute == y->recompute && x->schedule == y->schedule &&
           x->sequence == y->sequence && x->zero == y->zero && x->zero_group == y->zero_group;
}

// The variants of a mesh, and the one that was chosen.
typedef struct mesh_variants {
    int first, end; // in the list of candidates
    bool fits;
    layout_candidate best;
} mesh_variants;

// The variants of a mesh of which the time is known, and those that were planned.
typedef struct mesh_search {
    const layout_search *made;
    layout_times *times;
    layout_candidate *timed; // seconds HUGE_VAL: done with
    int n_timed, next;       // next: the first candidate that is not timed
    layout_candidate tried[MAX_TRIES];
    double excess[MAX_TRIES];
    int tries;
    double faster; // the lowest ratio of a variant's planned time and its computed time
} mesh_search;

// Returns whether a variant may fit, given the plans of similar ones.
static bool may_fit(const mesh_search *s, const layout_candidate *c) {
    double least = LEAST; // of its estimate
    for (int i = 0; i < s->tries; i++)
        if (is_alike(&s->tried[i], c))
            least = fmax(least, s->excess[i] - UNLIKE * fabs(s->excess[i] - 1) - LITTLE);
    return c->bytes * least <= (double)s->made->device.memory;
}

// Finds the time of the next candidate.
static void time_next(mesh_search *s) {
    layout_candidate c = s->made->all.list[s->next++];
    run_config cfg = *s->made->cfg;
    step_cost cost;
    if (!may_fit(s, &c) || layout_candidate_apply(&c, s->made->ranks, &cfg) != DRV_OK ||
            layout_time_make(s->times, &cfg, &s->made->device, &cost) != DRV_OK)
        return;
    c.seconds = cost.seconds;
    s->timed[s->n_timed++] = c;
}

// Plans a variant that is timed.
static void plan_variant(mesh_search *s, layout_candidate *timed, mesh_variants *of) {
    layout_candidate c = *timed;
    const double seconds = timed->seconds;
    timed->seconds = HUGE_VAL;
    if (!may_fit(s, &c) || layout_search_plan(s->made, &c) != DRV_OK) return;
    s->faster = fmin(s->faster, c.seconds / seconds);
    s->excess[s->tries] = c.bytes / timed->bytes;
    s->tried[s->tries++] = c;
    if (c.bytes > (double)s->made->device.memory) return;
    if (of->fits && c.seconds >= of->best.seconds) return;
    of->fits = true;
    of->best = c;
}

// Returns the fastest variant that is timed and not done with; NULL: there is none.
static layout_candidate *fastest_of(const mesh_search *s) {
    layout_candidate *out = NULL;
    for (int i = 0; i < s->n_timed; i++)
        if (s->timed[i].seconds < (out ? out->seconds : HUGE_VAL)) out = &s->timed[i];
    return out;
}

// Finds the fastest variant of a mesh that fits. It computes the times of variants in the order of
// their estimates, and plans variants in the order of their times, until none is left that may be
// faster. It skips variants that cannot fit because the plan of a similar one exceeded its estimate.
static void find_variant(const layout_search *made, mesh_variants *of) {
    mesh_search s = {.made = made,
            .times = layout_times_new(),
            .timed = mem_alloc(sizeof *s.timed * (size_t)(of->end - of->first)),
            .next = of->first,
            .faster = 1};
    while (s.tries < MAX_TRIES) {
        layout_candidate *fastest = fastest_of(&s);
        const double goal = of->fits ? of->best.seconds : HUGE_VAL,
                     known = fastest ? fastest->seconds : HUGE_VAL,
                     other = s.next < of->end ? FASTER * made->all.list[s.next].seconds : HUGE_VAL;
        if (other < fmin(known, goal))
            time_next(&s);
        else if (known * s.faster < SAME * goal)
            plan_variant(&s, fastest, of);
        else
            break;
    }
    layout_times_free(s.times);
    free(s.timed);
}

static int by_seconds(const void *x, const void *y) {
    const layout_candidate *a = x, *b = y;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

// Shows the progress of a search that takes longer than a second. It ends once enough layouts fit.
static void show_progress(const layout_search *f, double begin) {
    const int tried = f->n + f->n_not, left = f->all.n_meshes - tried;
    const double seconds = clock_s() - begin;
    if (seconds < 1) return;
    progress("planning layouts: mesh %d of at most %d, %d fit, at most %s left", tried + 1,
            f->all.n_meshes, f->n, str_duration(seconds / tried * left));
}

typedef struct plan_arg {
    const layout_search *made;
    mesh_variants *meshes;
} plan_arg;

static void plan_mesh(void *arg, int64_t i) {
    find_variant(((plan_arg *)arg)->made, &((plan_arg *)arg)->meshes[i]);
}

// Returns whether the mesh that begins with a candidate may be faster than the last one that is
// wanted.
static bool may_be_better(const layout_search *f, int first) {
    return f->n < f->top || FASTER * f->all.list[first].seconds <= f->list[f->top - 1].seconds;
}

// Ends when no mesh that is left is estimated to be faster than the last one that is wanted. As
// many meshes as are wanted in any case are planned at a time.
static void plan_best(layout_search *to) {
    const double begin = clock_s();
    const int n_threads = par_threads();
    mesh_variants *meshes = mem_alloc(sizeof *meshes * (size_t)(n_threads + MOST_AT_ONCE));
    int room = 0, next = 0;
    while (next < to->all.n && may_be_better(to, next)) {
        const int64_t wanted = to->top - to->n, most = wanted > MOST_AT_ONCE ? MOST_AT_ONCE
                                                       : wanted > n_threads  ? wanted
                                                                             : n_threads;
        int n = 0;
        if (next > 0) show_progress(to, begin);
        for (; n < most && next < to->all.n && may_be_better(to, next); n++) {
            meshes[n] = (mesh_variants){.first = next};
            while (next < to->all.n &&
                    layout_same_mesh(&to->all.list[meshes[n].first], &to->all.list[next]))
                next++;
            meshes[n].end = next;
        }
        par_for(n, plan_mesh, &(plan_arg){to, meshes});
        for (int i = 0; i < n && may_be_better(to, meshes[i].first); i++) {
            to->n_not += !meshes[i].fits;
            if (!meshes[i].fits) continue;
            MEM_GROW(to->list, to->n, room);
            to->list[to->n++] = meshes[i].best;
            qsort(to->list, (size_t)to->n, sizeof *to->list, by_seconds);
        }
    }
    free(meshes);
    progress_end();
    if (to->n > to->top) to->n = (int)to->top;
}

// Counts the FLOPs per token, which do not depend on the layout.
static drv_status count_flops(layout_search *f) {
    arena *a = arena_new("flops");
    run_config one = *f->cfg;
    programs p;
    config_one_rank(&one);
    one.micro_batch_size = 1;
    one.partial_sum_rows = 0;
    const drv_status status = programs_outline(a, &one, &p);
    if (status == DRV_OK) f->flops_per_token = programs_flops_per_token(&p, false);
    arena_free(a);
    return status;
}

drv_status layout_search_run(layout_search *s) {
    DRV_TRY(count_flops(s));
    layout_candidates_find(s->cfg, s->ranks, &s->device, &s->pinned, &s->all);
    plan_best(s);
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
