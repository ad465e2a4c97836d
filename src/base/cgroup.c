// Lines of /proc/self/cgroup, and the folders that they mean.
#include "base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// `list` is of the form "cpu,cpuacct".
static bool is_listed(const char *list, const char *controller) {
    const size_t n = strlen(controller);
    if (n == 0) return *list == 0;
    for (const char *name = list; *name; name += strcspn(name, ","), name += *name == ',')
        if (strcspn(name, ",") == n && strncmp(name, controller, n) == 0) return true;
    return false;
}

// In a container the path in /proc may not exist below the mount; then the mount's top, which is
// looked at last, is our own group.
static void climb(arena *a, const char *root, const cgroup_tree *tree, char *path,
        void (*fn)(void *ctx, arena *a, const char *folder), void *ctx) {
    for (;;) {
        fn(ctx, a, arena_printf(a, "%s%s%s", root, tree->mount, path));
        char *slash = strrchr(path, '/');
        if (!slash) return;
        *slash = 0;
    }
}

void cgroup_each(arena *a, const char *root, const cgroup_tree *tree,
        void (*fn)(void *ctx, arena *a, const char *folder), void *ctx) {
    FILE *f = fopen(arena_printf(a, "%s/proc/self/cgroup", root), "re");
    char line[4096]; // "4:memory:/group" (version 1), "0::/group" (version 2)
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'),
             *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        if (strcmp(path, "/") == 0) *path = 0;
        if (is_listed(controllers + 1, tree->controller)) climb(a, root, tree, path, fn, ctx);
    }
    if (f) fclose(f);
}
