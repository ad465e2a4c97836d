// Answers to keys that do not exist: another trainer's name for one of ours, a right word in a
// wrong section, a slip of the keyboard.
#include <string.h>

#include "config/config_internal.h"
#include "config/key.h"

static const char *last_part(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

// The keys whose last part is that of `path`: one, or several as "a", "b" or "c"; NULL: none.
static const char *same_last_part(arena *a, const char *path) {
    str found = {0};
    int n = 0;
    for (int i = 0; i < key_count(); i++) {
        const key_table *table;
        const char *ours;
        key_of_index(a, i, &table, &ours);
        if (strcmp(last_part(ours), last_part(path)) != 0) continue;
        str_printf(&found, "%s\"%s\"", n++ ? " or " : "", ours);
    }
    const char *names = n ? arena_strdup(a, found.p) : NULL;
    str_free(&found);
    return names;
}

// One key begins with the other's name, as log and log_every.
static bool is_part(const char *x, const char *y) {
    const size_t n = strlen(x), m = strlen(y);
    return n >= 3 && m >= 3 && strncmp(x, y, n < m ? n : m) == 0;
}

// Near names in the section that was named, then in any.
static const char *nearest_key(arena *a, const char *path) {
    const char *name = last_part(path);
    const size_t n_section = (size_t)(name - path);
    const char **near = ARENA_ARRAY(a, const char *, key_count());
    const char **all = ARENA_ARRAY(a, const char *, key_count());
    int n_near = 0, n_all = 0;
    for (int i = 0; i < key_count(); i++) {
        const key_table *table;
        const char *ours;
        key_of_index(a, i, &table, &ours);
        all[n_all++] = last_part(ours);
        if (last_part(ours) != ours + n_section || strncmp(ours, path, n_section) != 0) continue;
        if (is_part(last_part(ours), name)) return arena_printf(a, "\"%s\"", ours);
        near[n_near++] = last_part(ours);
    }
    const char *found = str_nearest(name, near, n_near);
    if (found) return arena_printf(a, "\"%.*s%s\"", (int)n_section, path, found);
    found = str_nearest(name, all, n_all);
    return found ? same_last_part(a, found) : NULL;
}

// The end of the message; NULL: nothing is known of such a key.
static const char *hint(arena *a, const char *path) {
    const char *peer = peer_key_hint(a, path, true), *same = same_last_part(a, path);
    if (peer) return peer;
    if (same) return arena_printf(a, "did you mean %s?", same);
    if ((peer = peer_key_hint(a, path, false))) return peer;
    const char *near = nearest_key(a, path);
    return near ? arena_printf(a, "did you mean %s?", near) : NULL;
}

// A section of another trainer: the first key in it that is known says the most.
static const value *first_known(arena *a, const value *v) {
    for (int i = 0; v->kind == VALUE_MAP && i < v->n; i++) {
        const value *item = &v->items[i];
        if (item->kind == VALUE_MAP && (item = first_known(a, item))) return item;
        item = &v->items[i];
        if (same_last_part(a, item->path) || peer_key_hint(a, item->path, false)) return item;
    }
    return NULL;
}

drv_status unknown_key(arena *a, const value *v) {
    if (v->kind == VALUE_MAP && !peer_key_hint(a, v->path, false)) {
        const value *known = first_known(a, v);
        if (known) v = known;
    }
    const char *text = hint(a, v->path);
    return drv_fail(DRV_E_USAGE, "%s: unknown key \"%s\"%s%s%s%s", v->where, v->path,
            v->kind == VALUE_TEXT ? " with value " : "",
            v->kind == VALUE_TEXT ? value_shown(a, v) : "", text ? "; " : "",
            text ? text : ", expected one of those that drover config prints");
}
