// Ranks that are processes under mpirun or srun. No call blocks in MPI: Open MPI spins while a call
// blocks (measured: 1.96 s of processor time in 2 s of MPI_Barrier, also with
// mpi_yield_when_idle), and on the surviving ranks the call never returns once a rank is killed. So
// messages are polled with MPI_Test, first often, then between sleeps of 20 to 500 us.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm_internal.h"
#include "comm/mpi_module.h"

enum { PIECE_BYTES = 1 << 30 }; // MPI counts in int

// A waiting peer answers within a few us, one that still computes within ms. Polling is cheap while
// each rank has a core; with more ranks than cores it would take time from the others.
#define LOOK_S 50e-6
enum { FIRST_SLEEP_NS = 20000, LONGEST_SLEEP_NS = 500000 };

typedef struct mpi_state {
    const mpi_module *m;
    pthread_mutex_t *lock; // around each call: duplicates are threads, and MPI allows one at a time
    bool crowded;          // more ranks here than cores
    double waiting_since;
    long sleep_ns;
} mpi_state;

// --- which launcher
static int number_of(const char *variable) {
    const char *text = getenv(variable);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

// Returns the tasks of this Slurm step. In the shell of an interactive step SLURM_NTASKS counts
// those of the allocation.
static int slurm_tasks(void) {
    const int n = number_of("SLURM_STEP_NUM_TASKS");
    return n > 0 ? n : number_of("SLURM_NTASKS");
}

static bool is_slurm_step(void) {
    return getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID");
}

int comm_launched(void) {
    int n = number_of("OMPI_COMM_WORLD_SIZE");
    if (n == 0 && getenv("PMIX_RANK")) n = slurm_tasks();
    if (n == 0) n = number_of("PMI_SIZE");
    if (n == 0 && is_slurm_step()) n = slurm_tasks();
    return n > 1 ? n : 1;
}

const char *comm_launcher(void) {
    if (getenv("OMPI_COMM_WORLD_SIZE")) return ", started by mpirun";
    if (getenv("SLURM_STEP_ID")) return ", started by srun";
    return getenv("PMI_SIZE") ? ", started by hydra" : "";
}

// --- the module
// Next to the program, where `make` puts it (tests are one folder deeper), or where it is installed.
static void *open_module(arena *a, const char **why) {
    static const char *const places[] = {"", "../", "../lib/drover/"};
    char exe[4096];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    *why = "its place is not known";
    if (n < 0) return NULL;
    exe[n] = 0;
    exe[strrchr(exe, '/') - exe + 1] = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *path = arena_printf(a, "%s%sdrover_mpi.so", exe, places[i]);
        if (access(path, R_OK) != 0 && i + 1 < sizeof places / sizeof *places) continue;
        void *handle =
                dlopen(path, RTLD_NOW | RTLD_GLOBAL); // Open MPI's plug-ins look for its symbols
        if (handle) return handle;
        *why = arena_strdup(a, dlerror());
        return NULL;
    }
    return NULL;
}

static drv_status find_module(arena *a, const mpi_module **out) {
    const char *why;
    void *handle = open_module(a, &why);
    *out = handle ? dlsym(handle, MPI_MODULE_SYMBOL) : NULL;
    if (*out && (*out)->version == MPI_MODULE_VERSION) return DRV_OK;
    if (*out) why = "it is of another version of drover";
    const bool no_mpi = strstr(why, "libmpi") != NULL; // our package only recommends MPI
    return drv_fail(DRV_E_USAGE,
            "started as one of %d processes, but drover_mpi.so cannot be used: %s; expected %s",
            comm_launched(), why,
            no_mpi ? "Open MPI (on Debian: apt-get install openmpi-bin)"
                   : "a drover built where libopenmpi-dev is installed");
}

// On one host Open MPI needs none of its network plug-ins, some of which warn when they find no
// hardware. It would also warn where the kernel forbids reading another process's memory, as in
// containers. Variables that the user has set stay.
static void quieten(void) {
    char byte = 0, copy;
    struct iovec from = {&byte, 1}, to = {&copy, 1};
    if (number_of("OMPI_COMM_WORLD_LOCAL_SIZE") == comm_launched()) {
        setenv("OMPI_MCA_pml", "ob1", 0);
        setenv("OMPI_MCA_btl", "vader,self", 0);
    }
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1)
        setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

// --- messages
static drv_status failed(const comm *c, const comm_transfer *t, const char *why) {
    return drv_fail(DRV_E_PEER, "rank %d (%s): MPI cannot %s: %s", t->peer, c->info[t->peer].host,
            t->sends ? "send to it" : "receive from it", why);
}

static const char *start_piece(const mpi_state *s, comm_transfer *t) {
    const int64_t left = t->bytes - t->moved;
    const int n = (int)(left < PIECE_BYTES ? left : PIECE_BYTES);
    char *p = t->p + t->moved;
    pthread_mutex_lock(s->lock);
    const char *bad = t->sends ? s->m->send(p, n, t->peer, t->tag, &t->handle)
                               : s->m->receive(p, n, t->peer, t->tag, &t->handle);
    pthread_mutex_unlock(s->lock);
    return bad;
}

// comm_check reports the error before any rank waits.
static void start(comm *c, comm_transfer *t) {
    mpi_state *s = c->state;
    s->waiting_since = 0;
    const char *bad = start_piece(s, t);
    if (!bad || failed(c, t, bad) == DRV_OK) return;
    failure_set(c->failure, FAIL_DIED, t->peer, DRV_E_PEER, drv_message());
}

static drv_status test(comm *c, comm_transfer *t) {
    const mpi_state *s = c->state;
    const int64_t left = t->bytes - t->moved;
    const int expected = (int)(left < PIECE_BYTES ? left : PIECE_BYTES);
    int received = expected;
    bool done;
    pthread_mutex_lock(s->lock);
    const char *bad = s->m->test(&t->handle, &done, &received);
    pthread_mutex_unlock(s->lock);
    if (bad) return failed(c, t, bad);
    if (!done) return DRV_OK;
    const bool empty = t->moved == 0 && received == 0;
    DRV_ASSERT(t->sends || empty || received == expected, "%d bytes from rank %d, expected %d",
            received, t->peer, expected);
    t->moved += expected;
    t->done = t->moved == t->bytes || (empty && !t->sends);
    if (!t->done && (bad = start_piece(s, t))) return failed(c, t, bad);
    return DRV_OK;
}

static void rest(mpi_state *s) {
    const double now = clock_s();
    if (s->waiting_since == 0) {
        s->waiting_since = now;
        s->sleep_ns = FIRST_SLEEP_NS;
    }
    if (!s->crowded && now - s->waiting_since < LOOK_S) return;
    nanosleep(&(struct timespec){0, s->sleep_ns}, NULL);
    s->sleep_ns += s->sleep_ns / 4;
    if (s->sleep_ns > LONGEST_SLEEP_NS) s->sleep_ns = LONGEST_SLEEP_NS;
}

static drv_status advance(comm *c, comm_transfer *list, int n, bool wait, bool *done) {
    mpi_state *s = c->state;
    *done = !has_failed(c);
    for (int i = 0; i < n && !has_failed(c); i++) {
        if (!list[i].done) DRV_TRY(test(c, &list[i]));
        *done &= list[i].done;
    }
    if (wait && !*done) rest(s);
    return DRV_OK;
}

// MPI cannot cancel them reliably; the memory stays until the process ends, which is soon.
static void cancel(comm *c DRV_UNUSED, comm_transfer *list DRV_UNUSED, int n DRV_UNUSED) {}

// After a failure MPI_Finalize would never return, so the process ends without it.
static void finish(comm *c, bool has_failed_) {
    const mpi_state *s = c->state;
    if (!has_failed_) s->m->close();
}

static void *duplicate(const comm *c, arena *a) {
    mpi_state *s = ARENA_NEW(a, mpi_state);
    *s = *(const mpi_state *)c->state;
    return s;
}

static const comm_transport transport = {.name = "MPI",
        .start = start,
        .advance = advance,
        .cancel = cancel,
        .close = finish,
        .duplicate = duplicate};

// Without PMIx under srun Open MPI would end the process with a page about how Slurm was built.
static drv_status check_launcher(void) {
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK") ||
            getenv("PMI_FD"))
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "started by srun as one of %d processes, which find no MPI there (--mpi=none); expected srun --mpi=pmix, or mpirun",
            comm_launched());
}

// Without PMIx each process would open as a job of one rank.
static drv_status check_mpi_size(int size) {
    if (size == comm_launched()) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "started as one of %d processes, but MPI sees %d; expected mpirun, or srun --mpi=pmix",
            comm_launched(), size);
}

drv_status comm_open_mpi(arena *a, const comm_opts *opts, comm_failure *failure, comm **out) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    mpi_state *s = ARENA_NEW(a, mpi_state);
    int rank, size, max_tag;
    s->lock = &lock;
    DRV_TRY(check_launcher());
    quieten();
    DRV_TRY(find_module(a, &s->m));
    const char *bad = s->m->open(&rank, &size, &max_tag);
    if (bad) return drv_fail(DRV_E_PEER, "MPI could not start: %s", bad);
    DRV_TRY(check_mpi_size(size));
    comm *c = comm_new(a, &transport, s, rank, size, opts, failure);
    DRV_TRY(comm_gather_info(c));
    s->crowded = comm_ranks_on_host(c) > sysconf(_SC_NPROCESSORS_ONLN);
    DRV_TRY(ring_open(c, &c->ring));
    *out = c;
    return DRV_OK;
}
