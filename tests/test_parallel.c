// Teams of threads (base/parallel.h): every chunk once, numbers of threads that do not collide,
// loops inside loops, several teams at once, late threads, forks.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "harness.h"

enum { MAX_TEAM = 16 };

static void sleep_s(double seconds) {
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

// --- every chunk once, under a number that no other thread has
typedef struct census {
    _Atomic int *seen;            // by chunk
    _Atomic int inside[MAX_TEAM]; // threads that run under this number now
    _Atomic int strangers, doubles;
    int n_threads;
} census;

static void count_chunk(void *arg, int64_t i) {
    census *c = arg;
    if (par_thread() < 0 || par_thread() >= c->n_threads) {
        c->strangers++;
        return;
    }
    if (c->inside[par_thread()]++ != 0) c->doubles++;
    c->seen[i]++;
    c->inside[par_thread()]--;
}

static void check_loop(team *t, int n_threads, int64_t n) {
    census c = {.n_threads = n_threads, .seen = calloc((size_t)n + 1, sizeof *c.seen)};
    assert_non_null(c.seen);
    team_for(t, n, count_chunk, &c);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(c.seen[i], 1);
    assert_int_equal(c.strangers, 0);
    assert_int_equal(c.doubles, 0);
    free(c.seen);
}

TEST(every_chunk_once) {
    static const int threads[] = {1, 2, 3, 16}; // 16: more than there are cores
    static const int64_t chunks[] = {0, 1, 2, 3, 17, 1000, 100000};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        team *t = team_new(threads[i]);
        for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++)
            check_loop(t, threads[i], chunks[k]);
        team_free(t);
    }
}

// A job that ended must not be touched by a thread that comes late: each region has an argument of
// its own, which is dead afterwards.
static void tiny_chunk(void *arg, int64_t i) {
    (void)i;
    (*(_Atomic int *)arg)++;
}

TEST(thousands_of_tiny_loops) {
    team *t = team_new(4);
    for (int i = 0; i < 30000; i++) {
        const int n = 2 + i % 7;
        _Atomic int *sum = calloc(1, sizeof *sum);
        assert_non_null(sum);
        team_for(t, n, tiny_chunk, sum);
        assert_int_equal(*sum, n);
        free(sum);
    }
    team_free(t);
}

// --- loops inside a chunk
typedef struct nest {
    team *outer, *inner;
    _Atomic int sum, foreign;
    _Atomic bool came; // a thread other than the caller's
} nest;

typedef struct nest_chunk {
    nest *of;
    int thread; // of the chunk that the loop is in; -1: any
} nest_chunk;

static void nested_inner(void *arg, int64_t i) {
    (void)i;
    const nest_chunk *c = arg;
    c->of->sum++;
    if (c->thread >= 0 && par_thread() != c->thread) c->of->foreign++;
}

static void nested_outer(void *arg, int64_t i) {
    (void)i;
    nest *n = arg;
    if (par_thread() != 0) n->came = true;
    while (!n->came)
        sleep_s(1e-5);
    const int thread = par_thread();
    nest_chunk c = {n, n->inner == n->outer ? thread : -1};
    team_for(n->inner, 10, nested_inner, &c);
    if (par_thread() != thread) n->foreign++;
}

TEST(loops_inside_loops) {
    team *three = team_new(3), *two = team_new(2);
    const struct { team *outer, *inner; } cases[] = {{three, three}, {three, two}, {two, three}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int repeat = 0; repeat < 200; repeat++) {
            nest n = {.outer = cases[k].outer, .inner = cases[k].inner};
            team_for(n.outer, 8, nested_outer, &n);
            assert_int_equal(n.sum, 80);
            assert_int_equal(n.foreign, 0);
        }
    team_free(three);
    team_free(two);
}

// --- several ranks in one process, and two callers of one team
static void add_square(void *arg, int64_t i) {
    atomic_fetch_add((_Atomic int64_t *)arg, i * i);
}

typedef struct rank {
    pthread_t thread;
    team *team; // NULL: that of the process
    int n_threads, n_wrong;
} rank;

static void *rank_main(void *arg) {
    rank *r = arg;
    team *before = team_use(r->team);
    if (r->team && par_threads() != r->n_threads) r->n_wrong++;
    for (int i = 0; i < 3000; i++) {
        _Atomic int64_t sum = 0;
        const int64_t n = 2 + i % 50;
        par_for(n, add_square, &sum);
        r->n_wrong += sum != (n - 1) * n * (2 * n - 1) / 6;
    }
    team_use(before);
    return NULL;
}

static void run_ranks(rank *ranks, int n) {
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    for (int i = 0; i < n; i++) {
        pthread_join(ranks[i].thread, NULL);
        assert_int_equal(ranks[i].n_wrong, 0);
        team_free(ranks[i].team);
    }
}

TEST(a_team_for_each_rank) {
    rank ranks[4] = {0};
    for (int i = 0; i < 4; i++)
        ranks[i] = (rank){.team = team_new(i + 1), .n_threads = i + 1};
    run_ranks(ranks, 4);
}

TEST(callers_that_share_a_team) {
    par_set_threads(3);
    rank ranks[3] = {0};
    run_ranks(ranks, 3);
    par_set_threads(2);
}

// --- late threads
// A member is kept from running by a handler that sleeps, as a busy core would keep it, while it
// waits for work: the caller must not wait for it, however many loops come by.
static _Atomic bool hold, held;
static _Atomic int n_by_others;

static void hold_thread(int number) {
    (void)number;
    held = true;
    while (hold)
        sleep_s(1e-3);
}

typedef struct meeting {
    pthread_t other;
    pid_t other_id;
    _Atomic bool came;
} meeting;

static void meet(void *arg, int64_t i) {
    (void)i;
    meeting *m = arg;
    if (par_thread() != 0) {
        m->other = pthread_self();
        m->other_id = gettid();
        prctl(PR_SET_TIMERSLACK, 1000UL); // ns
        m->came = true;
    }
    while (!m->came)
        sleep_s(1e-4);
}

static void count_others(void *arg, int64_t i) {
    (void)arg, (void)i;
    if (par_thread() != 0) n_by_others++;
}

TEST(late_thread_holds_nobody_up) {
    // SIGSEGV is one of the few signals that members take; here it stands for a core that is lost.
    struct sigaction before, stop = {.sa_handler = hold_thread};
    sigaction(SIGSEGV, &stop, &before);
    team *t = team_new(2);
    meeting m = {.came = false};
    team_for(t, 2, meet, &m);
    hold = true;
    assert_int_equal(pthread_kill(m.other, SIGSEGV), 0);
    while (!held)
        sleep_s(1e-4);
    for (int i = 0; i < 1000; i++)
        team_for(t, 4, count_others, NULL);
    assert_int_equal(n_by_others, 0); // the caller did all, and is here
    hold = false;
    m.came = false;
    team_for(t, 2, meet, &m); // and the late one takes part again
    team_free(t);
    sigaction(SIGSEGV, &before, NULL);
}

// Caller and member are stopped at any moment, between two instructions of a claim or of publishing
// a job too, while jobs of several lengths come and go: what was read of an old job must not serve
// to claim in a new one, or a counter is wrong.
enum { MAX_JOBS = 8000000 };

static int chunks_of_job(int job) {
    return 2 + job % 4;
}

static void count_byte(void *arg, int64_t i) {
    (void)i;
    (*(_Atomic uint8_t *)arg)++;
}

typedef struct pest { // signals one thread, some us after its last stop ended
    timer_t timer;
    long pause; // ns
} pest;

static void let_run(const pest *p) {
    timer_settime(p->timer, 0, &(struct itimerspec){.it_value = {0, p->pause}}, NULL);
}

static void short_stop(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    sleep_s(1e-6);
    let_run(info->si_value.sival_ptr);
}

static void pester(pest *p, pid_t thread) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
            .sigev_signo = SIGSEGV,
            .sigev_value.sival_ptr = p};
    event._sigev_un._tid = thread;
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &p->timer), 0);
    let_run(p);
}

TEST(stopped_at_any_moment) {
    struct sigaction before, stop = {.sa_sigaction = short_stop, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &stop, &before);
    team *t = team_new(2);
    meeting m = {.came = false};
    team_for(t, 2, meet, &m);
    pest pests[] = {{.pause = 31000}, {.pause = 7000}};
    pester(&pests[0], gettid());
    pester(&pests[1], m.other_id);
    _Atomic uint8_t *counts = calloc(MAX_JOBS, sizeof *counts);
    assert_non_null(counts);
    const double end = clock_s() + 2;
    int n_jobs = 0;
    for (; n_jobs < MAX_JOBS && clock_s() < end; n_jobs++)
        team_for(t, chunks_of_job(n_jobs), count_byte, &counts[n_jobs]);
    for (int i = 0; i < 2; i++)
        timer_delete(pests[i].timer);
    team_free(t);
    for (int i = 0; i < n_jobs; i++)
        if (counts[i] != chunks_of_job(i)) fail_msg("job %d: %d chunks", i, counts[i]);
    free(counts);
    sigaction(SIGSEGV, &before, NULL);
}

// What one thread has begun is waited for, and only that: the other one does the rest meanwhile.
typedef struct slow_chunk {
    _Atomic int n_done, n_done_at_end;
} slow_chunk;

static void slow_first(void *arg, int64_t i) {
    slow_chunk *s = arg;
    if (i == 0) {
        while (s->n_done < 99)
            sleep_s(1e-4);
        s->n_done_at_end = s->n_done;
    }
    s->n_done++;
}

TEST(others_go_on_beside_a_slow_chunk) {
    team *t = team_new(2);
    for (int repeat = 0; repeat < 20; repeat++) {
        slow_chunk s = {0};
        team_for(t, 100, slow_first, &s);
        assert_int_equal(s.n_done_at_end, 99);
        assert_int_equal(s.n_done, 100);
    }
    team_free(t);
}

// --- busy cores
static void *busy_loop(void *arg) {
    while (!atomic_load((_Atomic bool *)arg))
        continue;
    return NULL;
}

TEST(under_load) {
    enum { N_BUSY = 4 };
    _Atomic bool stop = false;
    pthread_t busy[N_BUSY];
    for (int i = 0; i < N_BUSY; i++)
        assert_int_equal(pthread_create(&busy[i], NULL, busy_loop, &stop), 0);
    static const int threads[] = {2, 5};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        team *t = team_new(threads[i]);
        for (int repeat = 0; repeat < 200; repeat++)
            check_loop(t, threads[i], 50);
        team_free(t);
    }
    stop = true;
    for (int i = 0; i < N_BUSY; i++)
        pthread_join(busy[i], NULL);
}

// --- processes and settings
TEST(child_of_a_fork) {
    par_set_threads(3);
    _Atomic int64_t sum = 0;
    par_for(100, add_square, &sum); // the parent's threads are there
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        meeting m = {.came = false};
        alarm(60);
        sum = 0;
        par_for(2, meet, &m); // ends only when the child has a second thread of its own
        par_for(100, add_square, &sum);
        _exit(sum == 328350 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    sum = 0;
    par_for(100, add_square, &sum);
    assert_int_equal(sum, 328350);
    par_set_threads(2);
}

TEST(numbers_of_threads) {
    const struct {
        const char *drover, *omp;
        int asked, want; // 0: not looked at, but at least one
    } cases[] = {{NULL, NULL, 5, 5}, {"3", "4", 5, 5}, {"3", "4", 0, 3}, {NULL, "4", 0, 4},
            {NULL, "4,2", 0, 4}, {"-1", "4", 0, 4}, {"many", "few", 0, 0}, {NULL, NULL, 0, 0},
            {NULL, NULL, 1 << 30, 4096}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cases[i].drover ? setenv("DROVER_THREADS", cases[i].drover, 1) : unsetenv("DROVER_THREADS");
        cases[i].omp ? setenv("OMP_NUM_THREADS", cases[i].omp, 1) : unsetenv("OMP_NUM_THREADS");
        const int n = par_threads_for(cases[i].asked);
        if (cases[i].want ? n != cases[i].want : n < 1) fail_msg("case %zu gave %d", i, n);
    }
    unsetenv("DROVER_THREADS");
    unsetenv("OMP_NUM_THREADS");
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
