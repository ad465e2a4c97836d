// The back end that only plans. Scratch is that of the CPU back end, so that a plan made without a
// device is the plan of a CPU run.
#include "backend/backend.h"
#include "backend/cpu/cpu_op.h"
#include "base/parallel.h"

static int64_t workspace(backend *b, const node *n) {
    (void)b;
    return cpu_ops[n->op]->workspace ? cpu_ops[n->op]->workspace(n, par_threads()) : 0;
}

static drv_status load(backend *b, const plan *p, executable **out) {
    (void)b, (void)p;
    *out = NULL;
    return DRV_OK;
}

static drv_status nothing(backend *b) {
    (void)b;
    return DRV_OK;
}

static drv_status run(backend *b, executable *e) {
    (void)b, (void)e;
    return DRV_OK;
}

static drv_status put(backend *b, int rank, const char *name, int64_t offset, int64_t bytes,
        const void *src) {
    (void)b, (void)rank, (void)name, (void)offset, (void)bytes, (void)src;
    return DRV_OK;
}

static drv_status get(backend *b, int rank, const char *name, int64_t offset, int64_t bytes,
        void *dst) {
    (void)b, (void)rank, (void)offset, (void)bytes, (void)dst;
    return drv_fail(DRV_E_DEVICE, "the null back end has no values to read (\"%s\")", name);
}

static int64_t held(backend *b) {
    (void)b;
    return 0;
}

static double peak_flops(backend *b) {
    (void)b;
    return 0;
}

static void finish(backend *b) {
    (void)b;
}

drv_status backend_open_null(arena *a, backend **out) {
    static const backend_vtable vtable = {.name = "null",
            .workspace = workspace,
            .load = load,
            .prepare = nothing,
            .run = run,
            .write = put,
            .read = get,
            .held_bytes = held,
            .peak_flops = peak_flops,
            .close = finish};
    backend *b = ARENA_NEW(a, backend);
    *b = (backend){&vtable, 1};
    *out = b;
    return DRV_OK;
}
