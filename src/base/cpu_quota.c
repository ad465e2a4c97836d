// Quotas of processor time: cpu.max of version 2, cpu.cfs_quota_us of version 1 of control groups.
#include "base/cpu_quota.h"

#include <stdio.h>

#include "base/cgroup.h"

// The first n numbers of a file; how many there were ("max" is none).
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
