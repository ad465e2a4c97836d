// Lines of /proc/self/cgroup, the folders that they mean, and quotas of processor time: cpu.max of
// version 2, cpu.cfs_quota_us of version 1.
#include "base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// Returns whether a controller is in a list such as "cpu,cpuacct".
static bool is_listed(const char *list, const char *controller) {
    const size_t n = strlen(controller);
    if (n == 0) return *list == 0;
    for (const char *name = list; *name; name += strcspn(name, ","), name += *name == ',')
        if (strcspn(name, ",") == n && strncmp(name, controller, n) == 0) return true;
    return false;
}

// In a container the path in /proc may not exist below the mount; then the top of the mount, which
// is visited last, is our own group.
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

// --- processor time
// Reads the first n numbers of a file and returns how many there were ("max" is no number).
static int read_numbers(const char *path, int n, double *out) {
    FILE *f = fopen(path, "re");
    int n_read = 0;
    while (f && n_read < n && fscanf(f, "%lf", &out[n_read]) == 1)
        n_read++;
    if (f) fclose(f);
    return n_read;
}

static void lower(double *cores, double quota_us, double period_us) {
    if (!(quota_us > 0) || !(period_us > 0)) return; // version 1 writes -1 for none
    const double here = quota_us / period_us;
    if (*cores <= 0 || here < *cores) *cores = here;
}

static void look_at_version_2(void *ctx, arena *a, const char *folder) {
    double max[2]; // quota and period, microseconds
    if (read_numbers(arena_printf(a, "%s/cpu.max", folder), 2, max) == 2)
        lower(ctx, max[0], max[1]);
}

static void look_at_version_1(void *ctx, arena *a, const char *folder) {
    double quota, period;
    if (read_numbers(arena_printf(a, "%s/cpu.cfs_quota_us", folder), 1, &quota) == 1 &&
            read_numbers(arena_printf(a, "%s/cpu.cfs_period_us", folder), 1, &period) == 1)
        lower(ctx, quota, period);
}

double cpu_quota_read(const char *root) {
    arena *a = arena_new("processor quota");
    double cores = 0;
    cgroup_each(a, root, &(cgroup_tree){"cpu", "/sys/fs/cgroup/cpu"}, look_at_version_1, &cores);
    cgroup_each(a, root, &(cgroup_tree){"", "/sys/fs/cgroup"}, look_at_version_2, &cores);
    arena_free(a);
    return cores;
}
