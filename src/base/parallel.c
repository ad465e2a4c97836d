// Teams of threads that share loops; see parallel.h for what is promised.
//
// A job is published in `claim`: the upper half is its number (epoch), the lower half the next
// chunk. A chunk is claimed by compare-and-exchange of the whole word, so a thread that was away
// while jobs came and went cannot claim with what it read of an old one. Between jobs the lower
// half is CLOSED; only then are fn, arg and n written. The caller waits for `done`, which counts
// the chunks of the other threads, and not for the threads.
#include "base/parallel.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/cgroup.h"
#include "base/status.h"

#define CLOSED UINT32_MAX

enum { MAX_THREADS = 4096, MAX_CHUNKS = 1 << 30 }; // of one job; longer loops are several jobs

// The time for which a thread looks for work, or for the end of a job, before it sleeps. A wake-up
// costs some 5 to 50 us, so the spin bridges the serial moments between two loops; beside a busy
// program each spin is time taken from a thread with work (bench/results/2026-11-22-busy.md).
#define SPIN_S 20e-6

typedef struct member { // a thread of a team
    struct team *team;
    pthread_t thread;
    int number;
    // The caller reads these to choose a core for the thread (see below).
    clockid_t clock; // of its processor time
    _Atomic pid_t id;
    _Atomic int cpu; // that it woke on
    _Atomic bool at_work;
    _Atomic bool moved; // the caller took a core from its mask, which was `mask`
    cpu_set_t mask;
} member;

struct team {
    _Alignas(64) _Atomic uint64_t claim;
    _Atomic(par_fn *) fn;
    _Atomic(void *) arg;
    _Atomic int64_t first; // chunk 0 of the job is this one of the loop
    _Atomic uint32_t n;

    _Alignas(64) _Atomic uint32_t done; // chunks done by members; futex of the caller
    _Atomic uint32_t caller_sleeps;

    _Alignas(64) _Atomic uint32_t posted; // epoch of the newest job; futex of the members
    _Atomic uint32_t n_asleep;
    _Atomic bool stop;

    // Twice the number of forks before the threads were started, plus 1 while a loop is running. So
    // a team that a child process inherits counts as free and without threads.
    _Alignas(64) _Atomic uint64_t taken;
    uint32_t epoch;
    int n_threads, n_members; // with the caller; started members
    long n_preempted;         // times that the caller had lost its core at its last wait
    bool enough_cores;        // for all threads
    member *members;
};

static team process_team = {.n_threads = 1, .claim = CLOSED};
static _Thread_local team *current;     // NULL: process_team
static _Thread_local team *working_for; // the team whose chunk this thread is running
static _Thread_local int working_as;    // and its number there
static _Thread_local int loop_number;   // its number in the innermost loop, perhaps of another team

static _Atomic uint64_t n_forks; // in the line of this process's ancestors; threads do not survive

static void count_fork(void) {
    n_forks++;
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

// Polls a word for a short while, until it is (or is not) `value`, and returns its last value.
static uint32_t spin(_Atomic uint32_t *word, uint32_t value, bool until_equal) {
    const double end = clock_s() + SPIN_S;
    uint32_t now;
    do {
        for (int i = 0; i < 16; i++) {
            now = atomic_load_explicit(word, memory_order_acquire);
            if ((now == value) == until_equal) return now;
            relax();
        }
    } while (clock_s() < end);
    return now;
}

// Runs chunks until none is left to claim, and returns how many it ran.
static uint32_t work(team *group) {
    uint32_t n_done = 0;
    uint64_t claim = atomic_load_explicit(&group->claim, memory_order_acquire);
    for (;;) {
        // These belong to the job of `claim` if the exchange succeeds, and are not used otherwise.
        par_fn *fn = atomic_load_explicit(&group->fn, memory_order_acquire);
        void *arg = atomic_load_explicit(&group->arg, memory_order_acquire);
        const int64_t first = atomic_load_explicit(&group->first, memory_order_acquire);
        const uint32_t n = atomic_load_explicit(&group->n, memory_order_acquire);
        const uint32_t i = (uint32_t)claim;
        if (i >= n) return n_done;
        if (!atomic_compare_exchange_weak_explicit(&group->claim, &claim, claim + 1,
                    memory_order_acq_rel, memory_order_acquire))
            continue;
        fn(arg, first + i);
        n_done++;
        claim = atomic_load_explicit(&group->claim, memory_order_acquire);
    }
}

// Threads beside other programs. On a quiet machine each thread has a core of its own and nothing
// below is reached but two comparisons. When a program takes a core from a member in the middle of
// a chunk, the caller soon waits for it, and the kernel then tends to put both on one core and
// leave the other to the program. Beside one busy loop on two cores that gave 0.55 of the quiet
// speed; with the two steps below it is 0.64, where a fair share of the cores is 0.67 (0.47 of 0.50
// beside two loops; bench/results/2026-11-22-busy.md).

// Called before the caller sleeps: gives the caller's core to a member that holds a chunk and has
// no core. Does nothing if the caller was preempted since it last waited, because then its core is
// shared as well.
static void lend_core(team *group) {
    struct rusage usage;
    if (!group->enough_cores || getrusage(RUSAGE_THREAD, &usage) != 0) return;
    const bool shared = usage.ru_nivcsw != group->n_preempted;
    group->n_preempted = usage.ru_nivcsw;
    for (int i = 0; i < group->n_members && !shared; i++) {
        member *m = &group->members[i];
        struct timespec before, after;
        cpu_set_t mask, here;
        if (!atomic_load(&m->at_work) || clock_gettime(m->clock, &before) != 0) continue;
        for (int k = 0; k < 8; k++)
            relax();
        if (clock_gettime(m->clock, &after) != 0 || after.tv_nsec != before.tv_nsec) continue;
        if (sched_getaffinity(m->id, sizeof mask, &mask) != 0) return;
        CPU_ZERO(&here);
        CPU_SET((size_t)sched_getcpu(), &here);
        if (sched_setaffinity(m->id, sizeof here, &here) == 0)
            sched_setaffinity(m->id, sizeof mask, &mask); // it stays here until it sleeps
        return;
    }
}

// Called before the caller wakes members: makes those that slept on the caller's core wake on
// another one.
static void keep_off_this_core(team *group, int n_wanted) {
    const int here = sched_getcpu();
    for (int i = 0; i < group->n_members && i < n_wanted && group->enough_cores; i++) {
        member *m = &group->members[i];
        if (atomic_load(&m->cpu) != here || atomic_load(&m->moved)) continue;
        if (sched_getaffinity(m->id, sizeof m->mask, &m->mask) != 0) return;
        cpu_set_t elsewhere = m->mask;
        CPU_CLR((size_t)here, &elsewhere);
        if (CPU_COUNT(&elsewhere) == 0) return;
        if (sched_setaffinity(m->id, sizeof elsewhere, &elsewhere) == 0)
            atomic_store(&m->moved, true);
    }
}

static void note_place(member *m) {
    if (atomic_load(&m->moved)) {
        sched_setaffinity(0, sizeof m->mask, &m->mask);
        atomic_store(&m->moved, false);
    }
    atomic_store_explicit(&m->cpu, sched_getcpu(), memory_order_relaxed);
}

static void *member_main(void *arg) {
    member *self = arg;
    team *group = self->team;
    pthread_getcpuclockid(pthread_self(), &self->clock);
    self->id = gettid();
    current = working_for = group;
    working_as = loop_number = self->number;
    uint32_t seen = 0;
    while (!atomic_load(&group->stop)) {
        note_place(self);
        atomic_store(&self->at_work, true);
        const uint32_t n_done = work(group);
        atomic_store(&self->at_work, false);
        // The job cannot have ended before the chunks of this thread are counted.
        if (n_done) {
            atomic_fetch_add(&group->done, n_done);
            if (atomic_load(&group->caller_sleeps)) futex_wake(&group->done, 1);
        }
        uint32_t now = spin(&group->posted, seen, false);
        if (now == seen) {
            atomic_fetch_add(&group->n_asleep, 1);
            while ((now = atomic_load(&group->posted)) == seen)
                futex_wait(&group->posted, seen);
            atomic_fetch_sub(&group->n_asleep, 1);
        }
        seen = now;
    }
    return NULL;
}

static void post(team *group, int n_wanted) {
    atomic_store(&group->posted, group->epoch);
    if (!atomic_load(&group->n_asleep)) return;
    keep_off_this_core(group, n_wanted);
    futex_wake(&group->posted, n_wanted);
}

static void start_members(team *group) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    // Signals are for the program's other threads, except those that a thread causes itself.
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int n = group->n_threads - 1;
    cpu_set_t mask;
    group->enough_cores =
            sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) >= group->n_threads;
    group->members = mem_alloc(sizeof *group->members * (size_t)n);
    group->stop = false;
    for (group->n_members = 0; group->n_members < n; group->n_members++) {
        member *m = &group->members[group->n_members];
        *m = (member){.team = group, .number = group->n_members + 1, .cpu = -1};
        if (pthread_create(&m->thread, NULL, member_main, m) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void forget_members(team *group) {
    free(group->members);
    group->members = NULL;
    group->n_members = 0;
    group->n_asleep = 0;
}

static void stop_members(team *group) {
    DRV_ASSERT(group->taken != 2 * n_forks + 1, "a team that is at work is changed");
    if (group->members && group->taken == 2 * n_forks) {
        group->stop = true;
        group->epoch++;
        post(group, INT_MAX);
        for (int i = 0; i < group->n_members; i++)
            pthread_join(group->members[i].thread, NULL);
    }
    forget_members(group);
}

// Reserves the team for a loop of the calling thread; false: the team is running another loop.
static bool take(team *group) {
    uint64_t was = atomic_load(&group->taken);
    const uint64_t forks = n_forks;
    if (was == 2 * forks + 1 || !atomic_compare_exchange_strong(&group->taken, &was, 2 * forks + 1))
        return false;
    if (was != 2 * forks) forget_members(group);
    if (!group->members) start_members(group);
    return true;
}

static void run_job(team *group, int64_t first, uint32_t n_chunks, par_fn *fn, void *arg) {
    // The order matters: whoever reads a new field and then exchanges `claim` finds it changed.
    atomic_store_explicit(&group->claim, (uint64_t)group->epoch << 32 | CLOSED,
            memory_order_release);
    atomic_store_explicit(&group->fn, fn, memory_order_release);
    atomic_store_explicit(&group->arg, arg, memory_order_release);
    atomic_store_explicit(&group->first, first, memory_order_release);
    atomic_store_explicit(&group->n, n_chunks, memory_order_release);
    atomic_store_explicit(&group->done, 0, memory_order_release);
    group->epoch++;
    atomic_store_explicit(&group->claim, (uint64_t)group->epoch << 32, memory_order_release);
    post(group, (n_chunks < (uint32_t)group->n_threads ? (int)n_chunks : group->n_threads) - 1);

    const uint32_t others = n_chunks - work(group);
    uint32_t done = spin(&group->done, others, true);
    if (done == others) return;
    atomic_store(&group->caller_sleeps, 1);
    while ((done = atomic_load(&group->done)) != others) {
        lend_core(group);
        futex_wait(&group->done, done);
    }
    atomic_store(&group->caller_sleeps, 0);
}

team *team_new(int n_threads) {
    team *group = mem_alloc_lines(sizeof *group);
    *group = (team){.n_threads = par_threads_for(n_threads), .claim = CLOSED};
    return group;
}

void team_free(team *group) {
    if (group) stop_members(group);
    free(group);
}

void team_for(team *group, int64_t n, par_fn *fn, void *arg) {
    const int number_before = loop_number;
    const bool inside = working_for == group;
    if (group->n_threads == 1 || n <= 1 || inside || !take(group)) {
        loop_number = inside ? working_as : 0;
        for (int64_t i = 0; i < n; i++)
            fn(arg, i);
        loop_number = number_before;
        return;
    }
    team *const outer = working_for;
    const int outer_as = working_as;
    working_for = group;
    working_as = loop_number = 0;
    for (int64_t first = 0; first < n; first += MAX_CHUNKS)
        run_job(group, first, (uint32_t)(n - first < MAX_CHUNKS ? n - first : MAX_CHUNKS), fn, arg);
    working_for = outer;
    working_as = outer_as;
    loop_number = number_before;
    atomic_store(&group->taken, 2 * n_forks);
}

int par_thread(void) {
    return loop_number;
}

static team *team_now(void) {
    return current ? current : &process_team;
}

team *team_use(team *group) {
    team *before = team_now();
    current = group;
    return before;
}

static int threads_by(const char *variable) {
    const char *text = getenv(variable);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

int par_threads_by_machine(int n_cores, double quota) {
    int n = n_cores;
    if (quota > 0 && quota < n) n = (int)ceil(quota);
    return n > 0 ? n : 1;
}

int par_threads_for(int asked) {
    int n = asked;
    if (n <= 0) n = threads_by("DROVER_THREADS");
    if (n <= 0) n = threads_by("OMP_NUM_THREADS");
    cpu_set_t set;
    if (n <= 0) {
        // A machine with more processors than a cpu_set_t has (1,024) refuses to fill one.
        const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
        n = par_threads_by_machine(known ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN),
                cpu_quota_read(""));
    }
    return n < MAX_THREADS ? n : MAX_THREADS;
}

void par_set_threads(int n) {
    stop_members(&process_team);
    process_team.n_threads = par_threads_for(n);
}

int par_threads(void) {
    return team_now()->n_threads;
}

void par_for(int64_t n, par_fn *fn, void *arg) {
    team_for(team_now(), n, fn, arg);
}
