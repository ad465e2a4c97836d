// Tests that are several ranks: the same function as threads of this process and as processes under
// mpirun, which start this program again with the name of a part.
#pragma once
#include "harness.h"

#include <sys/prctl.h>
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

// Starts this program as n processes with `part` and `arg`; output goes to `out`, and a file of
// each process that has ended to the folder OUT.ended. The process id of mpirun.
static inline pid_t start_mpirun(int n, const char *part, const char *arg, const char *out) {
    char exe[2048], ended[2048], count[16];
    const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(length > 0);
    exe[length] = 0;
    snprintf(count, sizeof count, "%d", n);
    snprintf(ended, sizeof ended, "%s.ended", out);
    OK(dir_remove(ended));
    OK(dir_make(ended));
    const pid_t pid = fork();
    if (pid) return pid;
    setenv("ENDED", ended, 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("HWLOC_SYNTHETIC", "core:2 pu:1", 1); // as tests/ranks.bash
    if (!freopen("/dev/null", "r", stdin) || !freopen(out, "w", stdout) || dup2(1, 2) < 0) _exit(9);
    execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "--mca",
            "odls_base_sigkill_timeout", "0", "-n", count, exe, part, arg, NULL);
    _exit(9);
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

static inline int play_part(drv_status (*fn)(comm *self, void *ctx), void *ctx,
        const comm_opts *opts) {
    arena *a = arena_new("rank");
    comm *self = NULL;
    drv_status status = comm_open(a, opts, &self);
    if (status == DRV_OK) status = fn(self, ctx);
    const bool speaks = status != DRV_OK && (!self || comm_abort(self, status)) && *drv_message();
    if (speaks) log_failure(drv_message());
    if (speaks && self) comm_mark_reported(self);
    if (self) comm_close(self);
    arena_free(a);
    return status == DRV_OK ? 0 : 1;
}

static inline bool has_ended(int rank) {
    char path[2048];
    snprintf(path, sizeof path, "%s/%d", getenv("ENDED"), rank);
    return file_exists(path);
}

// The part that a process under mpirun plays; its exit status. A child plays it: this one ends when
// those of all ranks have, as mpirun ends a job when the first of its processes fails.
static inline int play(drv_status (*fn)(comm *self, void *ctx), void *ctx, const comm_opts *opts) {
    enum { PATIENCE_S = 300 };
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char path[2048];
    int64_t n = 0;
    int status, n_ended = 0;
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(play_part(fn, ctx, opts));
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return 9;
    snprintf(path, sizeof path, "%s/%s", getenv("ENDED"), rank);
    if (file_write_atomic(path, "", 0) != DRV_OK) return 9;
    if (!str_to_i64(getenv("OMPI_COMM_WORLD_SIZE"), &n)) return 9;
    for (int i = 0; i < 1000 * PATIENCE_S && n_ended < n; i++) {
        if (has_ended(n_ended))
            n_ended++;
        else
            usleep(1000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
