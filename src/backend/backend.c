#include "backend/backend.h"

#include <string.h>

drv_status backend_open(arena *a, const char *name, backend **out) {
    if (strcmp(name, "cpu") == 0) return backend_open_cpu(a, out);
    if (strcmp(name, "null") == 0) return backend_open_null(a, out);
    return drv_fail(DRV_E_USAGE, "back end \"%s\" is unknown, expected cpu or null", name);
}

static int64_t workspace(void *ctx, const node *n) {
    backend *b = ctx;
    return b->v->workspace(b, n);
}

drv_status backend_compile(arena *a, backend *b, graph *g, plan **p, executable **out) {
    plan *made = plan_make(a, g, workspace, b);
    if (p) *p = made;
    return b->v->load(b, made, out);
}
