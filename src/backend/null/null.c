// A back end that only plans. It uses the workspace sizes of another back end, so that a plan made
// without a device is the plan of a run on that device.
#include "backend/backend_kinds.h"

typedef struct null_backend {
    backend base;
    backend_vtable calls; // the calls below, with the other back end's workspace
} null_backend;

static drv_status load(backend *b DRV_UNUSED, const plan *p DRV_UNUSED, executable **out) {
    *out = NULL;
    return DRV_OK;
}

static void use_slot(backend *b DRV_UNUSED, int slot DRV_UNUSED, const int64_t *spans DRV_UNUSED) {}

static drv_status read_nothing(backend *b DRV_UNUSED, const char *name, int64_t offset DRV_UNUSED,
        int64_t bytes DRV_UNUSED, void *dst DRV_UNUSED) {
    return drv_fail(DRV_E_DEVICE, "the null back end has no values to read (\"%s\")", name);
}

static const char *device(backend *b DRV_UNUSED) {
    return "none";
}

static const char *arithmetic(backend *b DRV_UNUSED) {
    return "none: nothing is computed";
}

backend *backend_open_null(arena *a, const backend_vtable *planned_for) {
    null_backend *b = ARENA_NEW(a, null_backend);
    b->calls = (backend_vtable){.name = "null",
            .workspace = planned_for->workspace,
            .load = load,
            .use_slot = use_slot,
            .read = read_nothing,
            .device = device,
            .arithmetic = arithmetic};
    b->base = (backend){.v = &b->calls};
    return &b->base;
}
