// Divides lists of devices and sets of cores.
#include "launch/shares.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { MAX_DEVICES = 4096 };

static drv_status no_list(const char *variable, const char *list) {
    return drv_fail(DRV_E_USAGE, "%s is \"%s\", expected devices like \"0,1,2,3\" or \"0-3\"",
            variable, list);
}

// Reads a range such as "4-7".
static bool read_range(const char *word, int *first, int *last) {
    int n = 0;
    return sscanf(word, "%5d-%5d%n", first, last, &n) == 2 && word[n] == 0 && *first >= 0 &&
           *last >= *first;
}

drv_status devices_share(arena *a, const char *variable, const char *list, int local, int n_ranks,
        const char **out) {
    const char **device = ARENA_ARRAY(a, const char *, MAX_DEVICES);
    char *rest = arena_strdup(a, list), *word;
    int count = 0, first, last;
    while ((word = strsep(&rest, ","))) {
        word += strspn(word, " ");
        word[strcspn(word, " ")] = 0;
        if (!*word || count == MAX_DEVICES) return no_list(variable, list);
        if (!read_range(word, &first, &last)) {
            device[count++] = word;
            continue;
        }
        for (int i = first; i <= last; i++) {
            if (count == MAX_DEVICES) return no_list(variable, list);
            device[count++] = arena_printf(a, "%d", i);
        }
    }
    if (count % n_ranks)
        return drv_fail(DRV_E_USAGE,
                "%s is \"%s\", %d devices, expected a multiple of the %d ranks of a node", variable,
                list, count, n_ranks);
    str share = {0};
    for (int i = 0; i < count / n_ranks; i++)
        str_printf(&share, "%s%s", i ? "," : "", device[local * (count / n_ranks) + i]);
    *out = str_keep(a, &share);
    return DRV_OK;
}

// --- cores
typedef struct cpu_core {
    int cpu, package, core, index;
} cpu_core;

static int topology_of(int cpu, const char *what) {
    char path[128];
    int number = -1;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    FILE *file = fopen(path, "re");
    if (!file) return -1;
    if (fscanf(file, "%d", &number) != 1) number = -1;
    fclose(file);
    return number;
}

static int by_core(const void *x, const void *y) {
    const cpu_core *a = x, *b = y;
    if (a->package != b->package) return a->package < b->package ? -1 : 1;
    if (a->core != b->core) return a->core < b->core ? -1 : 1;
    return (a->cpu > b->cpu) - (a->cpu < b->cpu);
}

void cores_share(const cpu_set_t *allowed, int local, int n_ranks, cpu_set_t *out) {
    cpu_core *list = mem_zeroed(sizeof *list * CPU_SETSIZE);
    int count = 0, n_cores = 0;
    CPU_ZERO(out);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, allowed)) {
            const int core = topology_of(cpu, "core_id");
            list[count++] = (cpu_core){cpu, topology_of(cpu, "physical_package_id"),
                    core < 0 ? cpu : core, 0};
        }
    qsort(list, (size_t)count, sizeof *list, by_core);
    for (int i = 0; i < count; i++) {
        const bool same =
                i > 0 && list[i].core == list[i - 1].core && list[i].package == list[i - 1].package;
        n_cores += !same;
        list[i].index = n_cores - 1;
    }
    const int from = local * n_cores / n_ranks, to = (local + 1) * n_cores / n_ranks;
    for (int i = 0; i < count && n_cores >= n_ranks; i++)
        if (list[i].index >= from && list[i].index < to) CPU_SET((size_t)list[i].cpu, out);
    free(list);
}
