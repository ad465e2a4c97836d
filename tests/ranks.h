// Tests that are several ranks: the same function as threads of this process and as processes under
// mpirun, which start this program again with the name of a part.
#pragma once
#include "harness.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/comm.h"

// Fails the rank, a comm, with the place of the condition.
#define EXPECT(rank, cond)                                                                         \
    do {                                                                                           \
        if (!(cond))                                                                               \
            return drv_fail(DRV_E_DATA, "rank %d of %d: %s:%d: %s", comm_rank(rank),               \
                    comm_size(rank), __FILE__, __LINE__, #cond);                                   \
    } while (0)

static inline bool has_mpirun(void) {
    const bool there = system("command -v mpirun >/dev/null 2>&1") == 0 &&
                       system("ls \"$(dirname \"$(readlink /proc/$PPID/exe)\")\"/../drover_mpi.so "
                              ">/dev/null 2>&1") == 0;
    if (!there) print_message("no mpirun or no drover_mpi.so: processes are not tested\n");
    return there;
}

// Starts this program as n processes with `part` and `arg`; output goes to `out`. The process id of
// mpirun, which kills all others `left_s` seconds after the first one has ended with an error.
static inline pid_t start_mpirun_with(const char *left_s, int n, const char *part, const char *arg,
        const char *out) {
    char exe[4096], count[16];
    const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(length > 0);
    exe[length] = 0;
    snprintf(count, sizeof count, "%d", n);
    const pid_t pid = fork();
    if (pid) return pid;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("HWLOC_SYNTHETIC", "core:2 pu:1", 1); // as tests/ranks.bash
    if (!freopen("/dev/null", "r", stdin) || !freopen(out, "w", stdout) || dup2(1, 2) < 0) _exit(9);
    execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "--mca",
            "odls_base_sigkill_timeout", left_s, "-n", count, exe, part, arg, NULL);
    _exit(9);
}

// Survivors of a rank that died have 5 s (1 is usual) to say so: the machine may be busy.
static inline pid_t start_mpirun(int n, const char *part, const char *arg, const char *out) {
    return start_mpirun_with("5", n, part, arg, out);
}

static inline int exit_of(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline char *text_of(arena *a, const char *path) {
    char *text;
    size_t n;
    if (file_read(a, path, &text, &n) != DRV_OK) return arena_strdup(a, "");
    return text;
}

// The part that a process under mpirun plays; its exit status.
static inline int play(drv_status (*fn)(comm *c, void *ctx), void *ctx, const comm_opts *opts) {
    arena *a = arena_new("rank");
    comm *c = NULL;
    drv_status status = comm_open(a, opts, &c);
    if (status == DRV_OK) status = fn(c, ctx);
    const bool speaks = status != DRV_OK && (!c || comm_abort(c, status)) && *drv_message();
    if (speaks) log_failure(drv_message());
    if (speaks && c) comm_said(c);
    if (c) comm_close(c);
    arena_free(a);
    return status == DRV_OK ? 0 : 1;
}
