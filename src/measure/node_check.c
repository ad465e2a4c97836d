// Measures one node alone, and all nodes together.
#include "measure/node_check.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/parallel.h"
#include "base/version.h"

#define MIB          ((int64_t)1 << 20)
// The shares of the time for products, copies, the disk and links.
#define GEMM_SHARE   0.4
#define MEMORY_SHARE 0.2
#define DISK_SHARE   0.2
#define LINK_SHARE   0.2
// Two buffers of this size exceed the caches of a processor (EPYC: 384 MiB), if the node has the
// memory.
enum { COPY_MIB = 256, COPY_PIECE_MIB = 1, FILE_MIB = 256, BLOCK_MIB = 4, PEAK_TRIES = 2 };

int64_t node_share(int64_t most, int64_t least, int64_t there, int n) {
    while (most > least && 4 * most > there / n)
        most /= 2;
    return most;
}

// --- products
static drv_status measure_gemm(arena *a, double seconds, double *out) {
    static const dtype types[] = {DT_F32, DT_BF16};
    backend *device;
    const double until = clock_s() + seconds;
    drv_status status = DRV_OK;
    DRV_TRY(backend_open_host(a, &device));
    *out = 0;
    do {
        for (int i = 0; i < 2 && status == DRV_OK; i++) {
            double now;
            status = backend_peak(device, types[i], PEAK_TRIES, &now);
            if (status == DRV_OK && now > *out) *out = now;
        }
    } while (status == DRV_OK && clock_s() < until);
    backend_close(device);
    return status;
}

// --- memory
typedef struct copy {
    char *to;
    const char *from;
} copy;

static void copy_piece(void *arg, int64_t i) {
    const copy *work = arg;
    memcpy(work->to + i * COPY_PIECE_MIB * MIB, work->from + i * COPY_PIECE_MIB * MIB,
            (size_t)(COPY_PIECE_MIB * MIB));
}

// Fills two buffers and copies one to the other. If the system is slow to provide memory, or other
// programs use the cores, it copies only the pieces that were filled in half of the time.
static void measure_memory(double seconds, int64_t most, double *out) {
    const int64_t piece = COPY_PIECE_MIB * MIB;
    char *from = pages_alloc((size_t)most), *to = pages_alloc((size_t)most);
    const double begin = clock_s();
    int64_t n = 0;
    for (; from && to && n < most / piece; n++) {
        if (n > 0 && clock_s() > begin + seconds / 2) break;
        memset(from + n * piece, 1,
                (size_t)piece); // otherwise all pages would be the same page of zeros
        memset(to + n * piece, 1, (size_t)piece);
    }
    if (n > 0) *out = 0;
    while (n > 0) {
        const double start = clock_s();
        par_for(n, copy_piece, &(copy){to, from});
        const double end = clock_s(), rate = 2 * (double)(n * piece) / (end - start);
        if (rate > *out) *out = rate; // bytes read and written
        if (end > begin + seconds) break;
    }
    pages_free(from, from ? (size_t)most : 0);
    pages_free(to, to ? (size_t)most : 0);
}

// --- the run directory
// Writes blocks until the time or the size is reached, and syncs them. The first block is synced by
// itself and shows how many the disk can take in the time: a cache would take all of them at once,
// and the sync would then last without limit.
static drv_status write_blocks(int fd, const char *path, const char *block, double seconds,
        int most, node_result *out, int *n_blocks) {
    const size_t bytes = (size_t)(BLOCK_MIB * MIB);
    const double begin = clock_s();
    DRV_TRY(file_write_all(fd, path, block, bytes));
    if (fsync(fd) != 0) return file_fail("sync", path);
    const double first = clock_s() - begin;
    for (*n_blocks = 1; *n_blocks < most && (*n_blocks + 1) * first < seconds; ++*n_blocks) {
        if (clock_s() > begin + seconds) break;
        DRV_TRY(file_write_all(fd, path, block, bytes));
    }
    const double written = clock_s();
    if (fsync(fd) != 0) return file_fail("sync", path);
    const double end = clock_s();
    out->fsync_s = end - written > first ? end - written : first;
    out->value[NODE_DISK_WRITE] = *n_blocks * (double)bytes / (end - begin);
    return DRV_OK;
}

static drv_status read_blocks(int fd, const char *path, char *block, int n_blocks,
        node_result *out) {
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); // so that the disk is read, not the cache
    const double begin = clock_s();
    for (int i = 0; i < n_blocks; i++) {
        const ssize_t n = pread(fd, block, (size_t)(BLOCK_MIB * MIB), (off_t)(i * BLOCK_MIB * MIB));
        if (n != (ssize_t)(BLOCK_MIB * MIB)) return file_fail("read", path);
    }
    out->value[NODE_DISK_READ] = n_blocks * (double)(BLOCK_MIB * MIB) / (clock_s() - begin);
    return DRV_OK;
}

// All ranks share the disk, and those of a host its memory, where written data stay for a while.
static int blocks_of(const comm *nodes, const char *dir, int64_t free_memory) {
    struct statvfs disk;
    const int64_t block = BLOCK_MIB * MIB;
    int64_t bytes = node_share(FILE_MIB * MIB, block, free_memory, comm_ranks_on_host(nodes));
    if (statvfs(dir, &disk) == 0)
        bytes = node_share(bytes, block, (int64_t)(disk.f_bavail * disk.f_frsize),
                comm_size(nodes));
    return (int)(bytes / block);
}

static drv_status measure_disk(arena *a, const comm *nodes, const char *dir, double seconds,
        int64_t free_memory, node_result *out) {
    const char *path = path_join(a, dir, arena_printf(a, ".drover-node-%d.tmp", comm_rank(nodes)));
    char *block = arena_alloc(a, (size_t)(BLOCK_MIB * MIB));
    int n_blocks = 0;
    memset(block, 'x', (size_t)(BLOCK_MIB * MIB));
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return file_fail("create", path);
    drv_status status = write_blocks(fd, path, block, seconds / 2,
            blocks_of(nodes, dir, free_memory), out, &n_blocks);
    if (status == DRV_OK) status = read_blocks(fd, path, block, n_blocks, out);
    close(fd);
    unlink(path);
    return status;
}

static drv_status measure_alone(arena *a, const comm *nodes, const char *dir, double seconds,
        node_result *out) {
    char host[NODE_HOST] = "";
    *out = (node_result){.fsync_s = (double)NAN, .sees_lock = -1, .sees_rename = 1};
    for (int i = 0; i < N_NODE_FIGURES; i++)
        out->value[i] = (double)NAN;
    gethostname(host, sizeof host - 1);
    const char *by_slurm = getenv("SLURMD_NODENAME"); // what its --exclude takes
    snprintf(out->host, sizeof out->host, "%s", by_slurm && *by_slurm ? by_slurm : host);
    snprintf(out->version, sizeof out->version, "%s %s", drover_number(), drover_commit());
    const memory_limit limit = memory_limit_read(""); // before other ranks here take theirs
    if (limit.free < INT64_MAX) out->value[NODE_FREE] = (double)limit.free;
    DRV_TRY(measure_gemm(a, GEMM_SHARE * seconds, &out->value[NODE_GEMM]));
    const int64_t bytes =
            node_share(COPY_MIB * MIB, COPY_PIECE_MIB * MIB, limit.free, comm_ranks_on_host(nodes));
    measure_memory(MEMORY_SHARE * seconds, bytes, &out->value[NODE_MEMORY]);
    out->sees_directory = 1;
    if (measure_disk(a, nodes, dir, DISK_SHARE * seconds, limit.free, out) != DRV_OK) {
        log_warn("node %d (%s): %s", comm_rank(nodes), host, drv_message());
        out->sees_directory = 0;
        out->value[NODE_DISK_WRITE] = out->value[NODE_DISK_READ] = (double)NAN;
    }
    return DRV_OK;
}

// --- all nodes
// Ranks of a host share its cores. mpirun binds each to one core, which would limit the measurement.
static void use_all_cores(const comm *c) {
    cpu_set_t all;
    memset(&all, 0xFF, sizeof all);
    if (comm_size(c) > 1 && !getenv("OMPI_MCA_hwloc_base_binding_policy") &&
            !getenv("SLURM_CPU_BIND_TYPE"))
        sched_setaffinity(0, sizeof all, &all);
    const int n = par_threads_for(0) / comm_ranks_on_host(c);
    par_set_threads(n > 0 ? n : 1);
}

drv_status node_measure(arena *a, comm *nodes, const char *dir, double seconds,
        node_result *results) {
    node_result mine;
    use_all_cores(nodes);
    DRV_TRY(comm_barrier(comm_all_ranks(nodes)));
    DRV_TRY(measure_alone(a, nodes, dir, seconds, &mine));
    DRV_TRY(node_measure_others(a, nodes, dir, LINK_SHARE * seconds, &mine));
    return comm_all_gather(comm_all_ranks(nodes), &mine, sizeof mine, NULL, results);
}
