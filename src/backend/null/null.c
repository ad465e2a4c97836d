// A back end that only plans. It uses the workspace sizes of another back end, so that a plan made
// without a device is the plan of a run on that device.
#include "backend/backend_kinds.h"

typedef struct null_backend {
    backend base;
    backend_vtable calls; // the calls below, with the other back end's workspace
} null_backend;

static void join_ranks(backend *b, comm *c, const mesh *m) {
    (void)b, (void)c, (void)m;
}

static drv_status load(backend *b, const plan *p, executable **out) {
    (void)b, (void)p;
    *out = NULL;
    return DRV_OK;
}

static drv_status prepare(backend *b) {
    (void)b;
    return DRV_OK;
}

static drv_status run(backend *b, executable *e) {
    (void)b, (void)e;
    return DRV_OK;
}

static void use_slot(backend *b, int slot, const int64_t *spans) {
    (void)b, (void)slot, (void)spans;
}

static drv_status write_nowhere(backend *b, const char *name, int64_t offset, int64_t bytes,
        const void *src) {
    (void)b, (void)name, (void)offset, (void)bytes, (void)src;
    return DRV_OK;
}

static drv_status read_nothing(backend *b, const char *name, int64_t offset, int64_t bytes,
        void *dst) {
    (void)b, (void)offset, (void)bytes, (void)dst;
    return drv_fail(DRV_E_DEVICE, "the null back end has no values to read (\"%s\")", name);
}

static int64_t held_bytes(backend *b) {
    (void)b;
    return 0;
}

static const char *device(backend *b) {
    (void)b;
    return "none";
}

static void describe(backend *b, backend_info *out) {
    (void)b;
    *out = (backend_info){.kernels = "",
            .best_kernels = "",
            .features = "",
            .bf16_by = "",
            .bf16_peak = DT_BF16,
            .other_way = ""};
}

static const char *arithmetic(backend *b) {
    (void)b;
    return "none: nothing is computed";
}

static drv_status peak(backend *b, dtype dt, int tries, double *flops_per_s) {
    (void)b, (void)dt, (void)tries;
    *flops_per_s = 0;
    return DRV_OK;
}

static drv_status memory_rate(backend *b, int tries, double *bytes_per_s) {
    (void)b, (void)tries;
    *bytes_per_s = 0;
    return DRV_OK;
}

static void finish(backend *b) {
    (void)b;
}

backend *backend_open_null(arena *a, const backend_vtable *planned_for) {
    null_backend *b = ARENA_NEW(a, null_backend);
    b->calls = (backend_vtable){.name = "null",
            .workspace = planned_for->workspace,
            .join = join_ranks,
            .load = load,
            .prepare = prepare,
            .run = run,
            .use_slot = use_slot,
            .write = write_nowhere,
            .read = read_nothing,
            .held_bytes = held_bytes,
            .device = device,
            .describe = describe,
            .arithmetic = arithmetic,
            .peak = peak,
            .memory_rate = memory_rate,
            .close = finish};
    b->base = (backend){.v = &b->calls};
    return &b->base;
}
