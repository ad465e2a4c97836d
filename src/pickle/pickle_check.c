// Checks the objects that a pickle would build: they have no cycles, and are no deeper than others
// can walk by recursion.
// Legend: b bounds, v a value.
#include "pickle/pickle_check_internal.h"

enum { BEING_VISITED = -1 };

typedef struct bounds {
    const char *path;
    int max_depth;
} bounds;

static drv_status check(const bounds *b, pickle_value *v, int depth);

// Visits a child, and raises *height above the child's.
static drv_status check_child(const bounds *b, const pickle_value *child, int depth, int *height) {
    if (!child) return DRV_OK;
    pickle_value *v = (pickle_value *)(uintptr_t)child; // only its height changes
    DRV_TRY(check(b, v, depth + 1));
    if (v->height >= *height) *height = v->height + 1;
    return DRV_OK;
}

static drv_status check_list(const bounds *b, const pickle_list *list, int depth, int *height) {
    for (int i = 0; i < list->n; i++)
        DRV_TRY(check_child(b, list->items[i], depth, height));
    return DRV_OK;
}

static drv_status check_dict(const bounds *b, const pickle_dict *dict, int depth, int *height) {
    for (int i = 0; i < dict->n; i++) {
        DRV_TRY(check_child(b, dict->entries[i].key, depth, height));
        DRV_TRY(check_child(b, dict->entries[i].value, depth, height));
    }
    return DRV_OK;
}

static drv_status check(const bounds *b, pickle_value *v, int depth) {
    int height = 1;
    if (v->height == BEING_VISITED)
        return drv_fail(DRV_E_DATA, "%s: byte %lld: the pickle has %s that contains itself",
                b->path, (long long)v->at, pickle_kind_name(v->kind));
    if (v->height == 0 && depth <= b->max_depth) {
        v->height = BEING_VISITED;
        if (v->kind == PICKLE_LIST || v->kind == PICKLE_TUPLE || v->kind == PICKLE_SET) {
            DRV_TRY(check_list(b, &v->list, depth, &height));
        } else if (v->kind == PICKLE_DICT) {
            DRV_TRY(check_dict(b, &v->dict, depth, &height));
        } else if (v->kind == PICKLE_PERSISTENT) {
            DRV_TRY(check_child(b, v->id, depth, &height));
        } else if (v->kind == PICKLE_CALL) {
            DRV_TRY(check_child(b, v->call->arguments, depth, &height));
            DRV_TRY(check_child(b, v->call->state, depth, &height));
            DRV_TRY(check_list(b, &v->call->appended, depth, &height));
            DRV_TRY(check_dict(b, &v->call->set, depth, &height));
        }
        v->height = height;
    }
    if (depth <= b->max_depth && depth + v->height - 1 <= b->max_depth) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: byte %lld: the pickle nests values more than %d deep", b->path,
            (long long)v->at, b->max_depth);
}

drv_status pickle_check(const char *path, pickle_value *root, int max_depth) {
    return check(&(bounds){path, max_depth}, root, 1);
}
