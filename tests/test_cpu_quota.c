// Processor quotas of control groups, on machines made of files; machines with many processors.
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/parallel.h"
#include "harness.h"

static void put(arena *a, const char *root, const char *path, const char *text) {
    const char *full = arena_printf(a, "%s/%s", root, path), *slash = strrchr(full, '/');
    OK(dir_make(arena_strndup(a, full, (size_t)(slash - full))));
    OK(file_write_atomic(full, text, strlen(text)));
}

TEST(the_smallest_quota_counts) {
#define V1 "sys/fs/cgroup/cpu"
#define V2 "sys/fs/cgroup"
    static const struct {
        const char *groups; // /proc/self/cgroup
        const char *files[4][2];
        double want;
    } cases[] = {
            {"", {{NULL}}, 0},
            {"0::/\n", {{NULL}}, 0},
            {"0::/a\n", {{V2 "/a/cpu.max", "max 100000\n"}}, 0},
            {"0::/a\n", {{V2 "/a/cpu.max", "150000 100000\n"}}, 1.5},
            {"0::/a\n", {{V2 "/a/cpu.max", "150000\n"}}, 0}, // no period: not a quota
            // of the group above, of both, and in a container, whose path is not below the mount
            {"0::/a/b\n", {{V2 "/a/cpu.max", "400000 100000\n"}}, 4},
            {"0::/a/b\n",
                    {{V2 "/a/b/cpu.max", "400000 100000\n"}, {V2 "/a/cpu.max", "50000 50000\n"}},
                    1},
            {"0::/pod/x\n", {{V2 "/cpu.max", "300000 100000\n"}}, 3},
            // version 1, whose line names several controllers
            {"5:cpu,cpuacct:/q\n0::/\n",
                    {{V1 "/q/cpu.cfs_quota_us", "25000\n"}, {V1 "/q/cpu.cfs_period_us", "50000\n"}},
                    0.5},
            {"5:cpuacct,cpu:/q\n",
                    {{V1 "/q/cpu.cfs_quota_us", "-1\n"}, {V1 "/q/cpu.cfs_period_us", "100000\n"}},
                    0},
            {"5:cpuset:/q\n",
                    {{V1 "/q/cpu.cfs_quota_us", "25000\n"}, {V1 "/q/cpu.cfs_period_us", "50000\n"}},
                    0},
            {"0::/a\n", {{V2 "/a/cpu.max", "-5 100000\n"}}, 0},
            {"0::/a\n", {{V2 "/a/cpu.max", "5 0\n"}}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *root = temporary_dir(a);
        put(a, root, "proc/self/cgroup", cases[i].groups);
        for (int k = 0; k < 4 && cases[i].files[k][0]; k++)
            put(a, root, cases[i].files[k][0], cases[i].files[k][1]);
        const double cores = cpu_quota_read(root);
        if (cores < cases[i].want || cores > cases[i].want)
            fail_msg("case %d: %g cores, expected %g", (int)i, cores, cases[i].want);
    }
}

// As many threads as there are cores, and no more than fill the quota.
TEST(threads_follow_the_quota) {
    static const struct {
        int n_cores;
        double quota;
        int want;
    } cases[] = {{8, 0, 8}, {8, 2, 2}, {8, 1.5, 2}, {8, 0.2, 1}, {2, 16, 2}, {0, 0, 1}, {0, 4, 1},
            {8, 1e300, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(par_threads_by_machine(cases[i].n_cores, cases[i].quota), cases[i].want);
}

// In the place of the C library's: the system refuses a mask for 1,024 processors if it has more.
static bool has_many_processors;

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *out) {
    memset(out, 0, bytes);
    if (!has_many_processors) return syscall(SYS_sched_getaffinity, pid, bytes, out) < 0 ? -1 : 0;
    errno = EINVAL;
    return -1;
}

TEST(machines_with_many_processors) {
    unsetenv("DROVER_THREADS");
    unsetenv("OMP_NUM_THREADS");
    has_many_processors = true;
    const int threads = par_threads_for(0);
    has_many_processors = false;
    assert_int_equal(threads,
            par_threads_by_machine((int)sysconf(_SC_NPROCESSORS_ONLN), cpu_quota_read("")));
}
