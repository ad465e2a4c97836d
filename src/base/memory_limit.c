// Memory limits of Linux: /proc/meminfo, control groups of both versions, getrlimit.
#include "base/memory_limit.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/arena.h"
#include "base/cgroup.h"
#include "base/parallel.h"

// Returns the number after `field` in a line "field 123" or "field: 123 kB" (times 1024 if in kB),
// or for the field "" the first number of the file. -1: there is no such file, line or number
// (control groups write "max").
static int64_t read_number(const char *path, const char *field) {
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    char line[256];
    const size_t n = strlen(field);
    int64_t result = -1;
    while (result < 0 && fgets(line, sizeof line, f)) {
        long long x;
        char unit[8] = "";
        const char *rest = line + n;
        if (strncmp(line, field, n) != 0 || (n > 0 && *rest != ':' && *rest != ' ')) continue;
        if (sscanf(rest + (*rest == ':'), "%lld %7s", &x, unit) >= 1 && x >= 0)
            result = strcmp(unit, "kB") == 0 ? x * 1024 : x;
        if (n == 0) break;
    }
    fclose(f);
    return result;
}

static void lower(memory_limit *limit, int64_t bytes, const char *what) {
    if (bytes < 0) bytes = 0;
    if (bytes >= limit->free) return;
    limit->free = bytes;
    limit->what = what;
}

// The files that version 1 and 2 of control groups have in each group's folder.
typedef struct memory_files {
    cgroup_tree tree;
    const char *max, *used, *cache;
    memory_limit *limit;
} memory_files;

static void look_at_group(void *ctx, arena *a, const char *folder) {
    const memory_files *files = ctx;
    memory_limit *limit = files->limit;
    const int64_t max = read_number(arena_printf(a, "%s/%s", folder, files->max), "");
    if (max < 0 || max >= INT64_MAX / 2) return; // version 1 writes 2^63 - 4096 for none
    const int64_t used = read_number(arena_printf(a, "%s/%s", folder, files->used), "");
    // Pages of files that were not used lately are counted as used, and dropped when memory is short.
    const int64_t cache = read_number(arena_printf(a, "%s/memory.stat", folder), files->cache);
    if (limit->machine == 0 || max < limit->machine) limit->machine = max;
    lower(limit, max - (used > 0 ? used : 0) + (cache > 0 ? cache : 0),
            "left in this control group");
}

static void read_cgroups(arena *a, const char *root, memory_limit *limit) {
    memory_files versions[] = {
            {{"memory", "/sys/fs/cgroup/memory"}, "memory.limit_in_bytes", "memory.usage_in_bytes",
                    "total_inactive_file", limit},
            {{"", "/sys/fs/cgroup"}, "memory.max", "memory.current", "inactive_file", limit},
    };
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        cgroup_each(a, root, &versions[i].tree, look_at_group, &versions[i]);
}

static void read_rlimit(int which, int64_t used, const char *what, memory_limit *limit) {
    struct rlimit r;
    if (getrlimit((__rlimit_resource_t)which, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return;
    lower(limit, (int64_t)r.rlim_cur - (used > 0 ? used : 0), what);
}

// Address space that threads reserve and hardly use, which counts under ulimit -v alone: each has a
// stack and an arena of malloc (HEAP_MAX_SIZE of glibc's malloc/arena.c). Beside the threads of the
// team one reads, checks or saves. VmPeak of runs with 1, 2, 4 and 8 threads was 75 MiB + 72 MiB a
// thread above what they held.
static int64_t reserved_by_threads(void) {
    enum { ARENA_MIB = 64, STACK_MIB = 8, LIBRARIES_MIB = 16 };
    struct rlimit stack;
    int64_t each = (int64_t)STACK_MIB << 20;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY)
        each = (int64_t)stack.rlim_cur;
    each += (int64_t)ARENA_MIB << 20;
    return each * (par_threads() + 1) + ((int64_t)LIBRARIES_MIB << 20);
}

memory_limit memory_limit_read(const char *root) {
    arena *a = arena_new("memory limits");
    memory_limit limit = {.free = INT64_MAX, .what = "unknown"};
    const char *meminfo = arena_printf(a, "%s/proc/meminfo", root);
    const char *status = arena_printf(a, "%s/proc/self/status", root);
    const int64_t total = read_number(meminfo, "MemTotal");
    const int64_t available = read_number(meminfo, "MemAvailable");
    if (total > 0) limit.machine = total;
    if (available >= 0) lower(&limit, available, "free on this machine");
    read_cgroups(a, root, &limit);
    const int64_t mapped = read_number(status, "VmSize");
    read_rlimit(RLIMIT_AS, (mapped > 0 ? mapped : 0) + reserved_by_threads(),
            "left under ulimit -v beside what threads reserve", &limit);
    read_rlimit(RLIMIT_DATA, read_number(status, "VmData"), "left under ulimit -d", &limit);
    arena_free(a);
    return limit;
}

typedef struct kill_counter {
    const char *file;
    int64_t n; // -1: not found yet
} kill_counter;

// Takes the count of the nearest group that has one, since groups above it count other jobs too.
static void look_at_kills(void *ctx, arena *a, const char *folder) {
    kill_counter *counter = ctx;
    if (counter->n < 0)
        counter->n = read_number(arena_printf(a, "%s/%s", folder, counter->file), "oom_kill");
}

int64_t memory_kills_read(const char *root) {
    const cgroup_tree version1 = {"memory", "/sys/fs/cgroup/memory"},
                      version2 = {"", "/sys/fs/cgroup"};
    arena *a = arena_new("memory kills");
    kill_counter counter = {"memory.events", -1};
    cgroup_each(a, root, &version2, look_at_kills, &counter);
    counter.file = "memory.oom_control";
    cgroup_each(a, root, &version1, look_at_kills, &counter);
    if (counter.n < 0) counter.n = read_number(arena_printf(a, "%s/proc/vmstat", root), "oom_kill");
    arena_free(a);
    return counter.n;
}
