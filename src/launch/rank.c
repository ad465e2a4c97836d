// A process of `drover launch node` that mpirun starts as a rank, until it becomes `drover train`.
#include <fcntl.h>
#include <errno.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "launch/shares.h"
#include "launch/expect.h"
#include "launch/launch.h"
#include "launch/local_job.h"
#include "launch/outcome.h"

enum { NEURON_PORT = 62182 }; // where torch-neuronx also has the root of its communicator

typedef struct rank_place {
    int rank, size, local, here; // according to mpirun
    int node, nodes, ranks;      // according to the launcher of this node
    char address[64];            // of node 0
} rank_place;

static drv_status number_of(const char *variable, int *out) {
    int64_t x = -1;
    const char *text = getenv(variable);
    if (!text || !str_to_i64(text, &x) || x < 0 || x > 1 << 24)
        return drv_fail(DRV_E_USAGE,
                "launch rank: no %s; expected to be run by the mpirun of drover launch", variable);
    *out = (int)x;
    return DRV_OK;
}

// Checks that this rank's number fits its node: else mpirun did not start the ranks asked for.
static drv_status find_place(bool checks, rank_place *out) {
    const char *node = getenv(LAUNCH_NODE);
    DRV_TRY(number_of("OMPI_COMM_WORLD_RANK", &out->rank));
    DRV_TRY(number_of("OMPI_COMM_WORLD_SIZE", &out->size));
    DRV_TRY(number_of("OMPI_COMM_WORLD_LOCAL_RANK", &out->local));
    DRV_TRY(number_of("OMPI_COMM_WORLD_LOCAL_SIZE", &out->here));
    if (!node ||
            sscanf(node, "%d %d %d %63s", &out->node, &out->nodes, &out->ranks, out->address) != 4)
        return drv_fail(DRV_E_USAGE,
                "launch rank: no " LAUNCH_NODE "; expected to be run by drover launch");
    if (checks) out->ranks = 1;
    if (out->size == out->nodes * out->ranks && out->here == out->ranks &&
            out->rank == out->node * out->ranks + out->local)
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "mpirun started rank %d of %d, local rank %d of %d, on node %d; expected rank %d of %d there",
            out->rank, out->size, out->local, out->here, out->node,
            out->node * out->ranks + out->local, out->nodes * out->ranks);
}

static void take_cores(const rank_place *place) {
    cpu_set_t all, mine;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return;
    cores_share(&all, place->local, place->ranks, &mine);
    const int n = CPU_COUNT(&mine);
    char text[16];
    snprintf(text, sizeof text, "%d", n > 0 ? n : 1);
    if (n > 0 && place->ranks > 1) sched_setaffinity(0, sizeof mine, &mine);
    if (place->ranks > 1 && !getenv("OMP_NUM_THREADS")) setenv("DROVER_THREADS", text, 0);
}

// Counts devices of the node if no variable lists them.
static int count_files(const char *pattern) {
    glob_t found = {0};
    const int n = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return n;
}

static drv_status take_devices(arena *a, const rank_place *place) {
    static const char cuda[] = "CUDA_VISIBLE_DEVICES", neuron[] = "NEURON_RT_VISIBLE_CORES";
    const char *list = getenv(cuda), *mine;
    const int gpus = count_files("/dev/nvidia[0-9]*"), chips = count_files("/dev/neuron[0-9]*");
    if (!list && gpus >= place->ranks) list = gpus > 1 ? arena_printf(a, "0-%d", gpus - 1) : "0";
    if (list && *list) {
        DRV_TRY(devices_share(a, cuda, list, place->local, place->ranks, &mine));
        setenv(cuda, mine, 1);
    }
    list = getenv(neuron);
    if (!list && !chips) return DRV_OK;
    mine = arena_printf(a, "%d", place->local); // one core each, as in torch-neuronx
    if (list) DRV_TRY(devices_share(a, neuron, list, place->local, place->ranks, &mine));
    setenv(neuron, mine, 1);
    str each = {0};
    for (int i = 0; i < place->size; i++)
        str_puts(&each, i ? ",1" : "1");
    setenv("NEURON_RT_ROOT_COMM_ID", arena_printf(a, "%s:%d", place->address, NEURON_PORT), 0);
    setenv("NEURON_PJRT_PROCESSES_NUM_DEVICES", each.p, 0);
    setenv("NEURON_PJRT_PROCESS_INDEX", arena_printf(a, "%d", place->rank), 1);
    str_free(&each);
    return DRV_OK;
}

static drv_status say_process(arena *a, const rank_place *place) {
    const char *dir = getenv(LAUNCH_DIR), *pid = arena_printf(a, "%d", (int)getpid());
    if (!dir) return drv_fail(DRV_E_USAGE, "launch rank: no " LAUNCH_DIR);
    // Names of shared memory segments contain the host, and nodes may be containers of one host.
    const char *shared = arena_printf(a, "/dev/shm%s", strrchr(dir, '/'));
    if (file_is_dir(shared)) {
        setenv("OMPI_MCA_btl_vader_backing_directory", shared, 0);
        setenv("OMPI_MCA_btl_sm_backing_directory", shared, 0);
    }
    return file_write_atomic(arena_printf(a, "%s/rank-%d", dir, place->local), pid, strlen(pid));
}

static drv_status become(arena *a, const char *const *words, int n_words) {
    char program[4096];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) return drv_fail(DRV_E_IO, "could not find this program: %s", strerror(errno));
    program[n] = 0;
    const char **argv = ARENA_ARRAY(a, const char *, n_words + 2);
    argv[0] = "drover";
    for (int i = 0; i < n_words; i++)
        argv[i + 1] = words[i];
    execv(program, (char *const *)(uintptr_t)argv);
    return drv_fail(DRV_E_IO, "could not run \"%s\": %s", program, strerror(errno));
}

// Becomes a measurement of this node instead of training: what rank 0 prints goes into a file in
// the launcher's folder. A signal ends it, since there is nothing to save.
static drv_status become_check(arena *a, const rank_place *place, const char *const *words) {
    const char *const argv[] = {"doctor", "--node", words[1], "--json", "--seconds", words[2]};
    sigset_t none;
    DRV_TRY(say_process(a, place));
    if (place->rank == 0) {
        const char *path = path_join(a, getenv(LAUNCH_DIR), LAUNCH_CHECK);
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) return file_fail("create", path);
    }
    signal(SIGUSR2, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return become(a, argv, sizeof argv / sizeof *argv);
}

drv_status launch_rank(arena *a, const char *const *words, int n_words) {
    rank_place place;
    const bool checks = n_words == 3 && strcmp(words[0], LAUNCH_CHECK) == 0;
    DRV_TRY(find_place(checks, &place));
    if (checks) return become_check(a, &place, words);
    local_job_hold_signals(); // those that come before train listens stay pending
    DRV_TRY(say_process(a, &place));
    take_cores(&place);
    if (strcmp(words[0], "cpu") != 0) DRV_TRY(take_devices(a, &place));
    setenv(EXPECT_RANKS, arena_printf(a, "%d", place.size), 0);
    const char **train = ARENA_ARRAY(a, const char *, n_words);
    memcpy(train, words, sizeof *train * (size_t)n_words);
    train[0] = "train";
    return become(a, train, n_words);
}
