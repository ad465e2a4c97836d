// Each field determines a term or two: it is found by bisection. Those of computing come first,
// since messages overlap with computing, launches before memory, since the update has launches too,
// and memory before products in fp8, whose operands are rounded in memory.
#include "search/device_learn.h"

#include <math.h>
#include <stddef.h>

// The largest change of a rate, up and down.
#define MOST_CHANGE 1e5

typedef struct learnable {
    const char *name;
    size_t offset;
    step_term first, second; // terms that it determines, which may be one
    bool slows;              // a larger value takes longer
} learnable;

#define AT(member) offsetof(device_profile, member)
static const learnable of_bf16 = {"reached.products", AT(reached_products), TERM_PRODUCTS,
        TERM_HEAD, false};
static const learnable head_beside_fp8 = {"reached.products", AT(reached_products), TERM_HEAD,
        TERM_HEAD, false};
static const learnable of_fp8 = {"reached.products_fp8", AT(reached_fp8), TERM_PRODUCTS,
        TERM_PRODUCTS, false};
static const learnable others[] = {{"reached.attention", AT(reached_attention), TERM_ATTENTION,
                                           TERM_ATTENTION, false},
        {"launch_us", AT(launch_s), TERM_LAUNCHES, TERM_LAUNCHES, true},
        {"reached.memory", AT(reached_memory), TERM_MEMORY, TERM_UPDATE, false}};

typedef struct learning {
    arena *a;
    const run_plan *planned;
    const double *measured;
    device_profile *profile;
    const char *learned, *left;
} learning;

static double sum_of(const double *terms, const learnable *f) {
    return terms[f->first] + (f->second != f->first ? terms[f->second] : 0);
}

static drv_status planned_s(const learning *l, const learnable *f, double *out) {
    step_cost cost;
    arena *a = arena_new("a trial");
    const drv_status status = run_plan_cost(a, l->planned, l->profile, &cost);
    *out = status == DRV_OK ? sum_of(cost.term, f) : 0;
    arena_free(a);
    return status;
}

static void note(learning *l, const char **list, const learnable *f, const char *why) {
    *list = arena_printf(l->a, "%s%s%s%s", *list, **list ? ", " : "", f->name, why);
}

static drv_status learn(learning *to, const learnable *what) {
    enum { HALVINGS = 48 };
    double *field = (double *)((char *)to->profile + what->offset), before = *field, now;
    const double wanted = sum_of(to->measured, what);
    DRV_TRY(planned_s(to, what, &now));
    if (!(wanted > 0) || !(now > 0)) {
        note(to, &to->left, what, wanted > 0 ? " (not planned)" : " (not measured)");
        return DRV_OK;
    }
    double low = before / MOST_CHANGE, high = before * MOST_CHANGE;
    for (int i = 0; i < HALVINGS; i++) {
        *field = sqrt(low * high);
        DRV_TRY(planned_s(to, what, &now));
        *((now > wanted) == what->slows ? &high : &low) = *field;
    }
    if (fabs(now / wanted - 1) < 0.01) {
        note(to, &to->learned, what, "");
        return DRV_OK;
    }
    *field = before;
    note(to, &to->left, what, " (it cannot explain the time)");
    return DRV_OK;
}

// The links of the ranks along an axis; those between hosts if its ranks are not all on one. Where
// each group of data ranks lies on a host (parallel.zero_group), weights travel inside it and sums
// between hosts: such a time says one of the two speeds if another axis has said the other one.
static drv_status learn_link(learning *l, mesh_axis axis, step_term term, bool known[2]) {
    const mesh *m = &l->planned->mesh;
    const int64_t host = l->profile->links.ranks_per_host,
                  reach = axis == AXIS_DATA ? mesh_ranks(m) / m->size[AXIS_PIPELINE]
                                            : (int64_t)mesh_stride(m, axis) * m->size[axis];
    const bool between = host && reach > host;
    const bool both =
            axis == AXIS_DATA && between && mesh_groups(m) > 1 && reach / mesh_groups(m) <= host;
    const learnable links[] = {{"reached.inside", AT(reached_inside), term, term, false},
            {"reached.between", AT(reached_between), term, term, false}};
    const bool link = both && known[true] ? false : between;
    if (known[link] || !(l->measured[term] > 0)) return DRV_OK;
    known[link] = true;
    if (!both || known[!link]) return learn(l, &links[link]);
    known[!link] = true;
    for (int i = 0; i < 2; i++)
        note(l, &l->left, &links[i], " (one time for both links)");
    return DRV_OK;
}

// Shares above 1 go into their peak, so that the profile can be read again.
static void fit_range(double *peak, double *x, double *y) {
    const double most = fmax(*x, y ? *y : 0);
    if (most <= 1) return;
    *peak *= most;
    *x /= most;
    if (y) *y /= most;
}

static void make_readable(device_profile *d) {
    fit_range(&d->bf16_flops, &d->reached_products, &d->reached_attention);
    fit_range(&d->fp8_flops, &d->reached_fp8, NULL);
    fit_range(&d->bytes_per_s, &d->reached_memory, NULL);
    fit_range(&d->links.inside, &d->reached_inside, NULL);
    fit_range(&d->links.between, &d->reached_between, NULL);
}

drv_status device_profile_learn(arena *a, const run_plan *planned,
        const double measured[N_STEP_TERMS], device_profile *profile, const char **learned,
        const char **left) {
    learning all = {a, planned, measured, profile, "", ""};
    bool known[2] = {false, false};
    const bool fp8 = planned->cfg->precision == PRECISION_F8;
    if (!isfinite(profile->bytes_per_s)) profile->bytes_per_s = 1e11;
    if (profile->launch_s == 0) profile->launch_s = 1e-6;
    if (!profile->links.ranks_per_host) profile->links.ranks_per_host = planned->n_ranks;
    DRV_TRY(learn(&all, fp8 ? &head_beside_fp8 : &of_bf16));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        DRV_TRY(learn(&all, &others[i]));
    if (fp8) DRV_TRY(learn(&all, &of_fp8));
    DRV_TRY(learn_link(&all, AXIS_TENSOR, TERM_TENSOR, known));
    DRV_TRY(learn_link(&all, AXIS_CONTEXT, TERM_CONTEXT, known));
    DRV_TRY(learn_link(&all, AXIS_DATA, TERM_DATA, known));
    for (int i = 0; i < 2; i++)
        if (!known[i])
            note(&all, &all.left, &(learnable){.name = i ? "reached.between" : "reached.inside"},
                    " (no messages)");
    make_readable(profile);
    *learned = all.learned;
    *left = all.left;
    return DRV_OK;
}
