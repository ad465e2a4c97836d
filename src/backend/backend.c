// Opens back ends by name, and does what is the same for all of them.
#include "backend/backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend_kinds.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "base/str.h"

drv_status backend_open(arena *a, const char *name, const backend_opts *opts, backend **out) {
    if (!name || !*name || strcmp(name, "cpu") == 0) return backend_open_cpu(a, opts, out);
    if (strcmp(name, "pjrt") == 0) return backend_open_pjrt(a, opts, out);
    return drv_fail(DRV_E_USAGE, "back end \"%s\" is unknown, expected cpu or pjrt", name);
}

drv_status backend_open_host(arena *a, backend **out) {
    return backend_open_cpu(a, &(backend_opts){0}, out);
}

backend *backend_open_planner(arena *a, bool devices) {
    return backend_open_null(a, devices ? &backend_pjrt : &backend_cpu);
}

// A measurement is too low while other programs use the cores, but never too high. So this measures
// until the two highest rates agree, or until the start has waited long enough.
static drv_status steady_peak(backend *b, dtype dt, double *highest) {
    enum { MIN_TRIES = 2, MAX_TRIES = 8 };
    const double agree = 0.95, until = clock_s() + 0.4;
    double second = 0;
    *highest = 0;
    for (int i = 0; i < MAX_TRIES; i++) {
        if (i >= MIN_TRIES && (second >= agree * *highest || clock_s() > until)) break;
        double look;
        DRV_TRY(backend_peak(b, dt, 2, &look));
        if (look > *highest) {
            second = *highest;
            *highest = look;
        } else if (look > second) {
            second = look;
        }
    }
    return DRV_OK;
}

drv_status backend_peak_flops(backend *b, double *flops_per_s) {
    const char *said = getenv("DROVER_PEAK_FLOPS");
    double f32 = 0, bf16 = 0, peak;
    if (said && *said) {
        if (!str_to_f64(said, &peak) || !(peak > 0 && peak < HUGE_VAL))
            return drv_fail(DRV_E_USAGE,
                    "DROVER_PEAK_FLOPS is \"%.40s\", expected the peak of one rank in FLOP/s, such as 1.5e12",
                    said);
        *flops_per_s = peak;
        return DRV_OK;
    }
    *flops_per_s = 0;
    if (steady_peak(b, DT_F32, &f32) == DRV_OK && steady_peak(b, DT_BF16, &bf16) == DRV_OK)
        *flops_per_s = f32 > bf16 ? f32 : bf16;
    return DRV_OK;
}

static int64_t workspace(void *ctx, const node *n) {
    const backend *b = ctx;
    return b->v->workspace ? b->v->workspace(n, par_threads()) : 0;
}

plan *backend_plan(arena *a, backend *b, graph *g) {
    return plan_make(a, g, workspace, b);
}

drv_status backend_check_pipeline(const backend *b) {
    if (b->v->use_slot) return DRV_OK;
    return drv_fail(DRV_E_DEVICE, "back end \"%s\" runs no pipelines, expected cpu", b->v->name);
}

static void load_one(arena *a, backend *b, load_request *r) {
    const double start = clock_s();
    DRV_ASSERT(!r->parts, "back end \"%s\" has no whole steps", b->v->name);
    r->status = b->v->load(b, r->plan, r->out);
    r->seconds = clock_s() - start;
    r->message = r->status == DRV_OK ? "" : arena_strdup(a, drv_message());
}

drv_status backend_load_all(arena *a, backend *b, load_request *requests, int n) {
    if (b->v->load_all) return b->v->load_all(b, requests, n);
    for (int i = 0; i < n; i++)
        load_one(a, b, &requests[i]);
    return DRV_OK;
}

drv_status backend_compile(arena *a, backend *b, graph *g, plan **p, executable **out) {
    if (g->mesh.size[AXIS_PIPELINE] > 1) DRV_TRY(backend_check_pipeline(b));
    plan *made = backend_plan(a, b, g);
    if (p) *p = made;
    return b->v->load(b, made, out);
}

drv_status backend_check_fit(backend *b, const char *name, int64_t bytes, const char *expected) {
    const int64_t given = backend_capacity(b);
    if (given == 0 || bytes <= given) return DRV_OK;
    return drv_fail(DRV_E_DEVICE,
            "program \"%s\" needs %s (%lld bytes) on a device, but %s gives %s (%lld); %s", name,
            str_bytes((double)bytes), (long long)bytes, backend_device(b), str_bytes((double)given),
            (long long)given, expected);
}

drv_status backend_check_program(backend *b, const char *name, const executable *e,
        const char *expected) {
    backend_memory m;
    if (!backend_program_memory(b, e, &m)) return DRV_OK;
    return backend_check_fit(b, name, backend_memory_total(&m), expected);
}
