// Every collective against a reference that each rank computes from what it knows of all others'
// inputs: 1 to 8 threads, 2 to 4 processes, parts of unequal length, groups within the job, NaN,
// -0.0.
#include "ranks.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "ir/wire.h"

static const dtype types[] = {DT_F32, DT_BF16, DT_F64, DT_I32, DT_I64};
enum { N_TYPES = sizeof types / sizeof *types };

// Element i of what a rank brings. Reals are not sums of few bits, so another order shows; every
// 7th is a zero of either sign, and rank 1 has a NaN.
static double value_of(dtype dt, int rank, int64_t i, bool nan) {
    const double x = noise((uint64_t)rank + 11, (uint64_t)i);
    if (dt == DT_I32 || dt == DT_I64) return floor(1e6 * x);
    if (i % 7 == 3) return i % 2 ? -0.0 : (rank % 2 ? -0.0 : 0.0);
    if (nan && rank == 1 && i == 5) return (double)NAN;
    return x;
}

static void put(dtype dt, void *p, int64_t i, double x) {
    if (dt == DT_F32) ((float *)p)[i] = (float)x;
    if (dt == DT_BF16) ((uint16_t *)p)[i] = f32_to_bf16((float)x);
    if (dt == DT_F64) ((double *)p)[i] = x;
    if (dt == DT_I32) ((int32_t *)p)[i] = (int32_t)x;
    if (dt == DT_I64) ((int64_t *)p)[i] = (int64_t)x;
}

static void *made(arena *a, dtype dt, int rank, int64_t n, bool nan) {
    void *p = arena_alloc(a, (size_t)(n * dtype_bytes(dt)) + 1);
    for (int64_t i = 0; i < n; i++)
        put(dt, p, i, value_of(dt, rank, i, nan));
    return p;
}

// The join of places [low, high) as join.h promises it, one element at a time.
static double joined(dtype dt, comm_join join, const comm_group *g, int low, int high, int64_t i,
        bool nan) {
    if (high - low == 1) {
        double x = value_of(dt, group_rank(g, low), i, nan);
        if (dt == DT_BF16) x = (double)bf16_to_f32(f32_to_bf16((float)x));
        return dt == DT_F32 ? (double)(float)x : x;
    }
    int half = 1;
    while (2 * half < high - low)
        half *= 2;
    const double x = joined(dt, join, g, low, low + half, i, nan),
                 y = joined(dt, join, g, low + half, high, i, nan);
    if (join == COMM_SUM)
        return dt == DT_F32 || dt == DT_BF16 ? (double)((float)x + (float)y) : x + y;
    if (isnan(x) || isnan(y)) return (double)NAN;
    return x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}

static bool is_joined(dtype dt, comm_join join, const comm_group *g, const void *p, int64_t first,
        int64_t n, bool nan) {
    for (int64_t i = 0; i < n; i++) {
        char want[8], got[8];
        const double x = joined(dt, join, g, 0, group_size(g), first + i, nan);
        put(dt, want, 0, x);
        memcpy(got, (const char *)p + i * dtype_bytes(dt), (size_t)dtype_bytes(dt));
        if (isnan(x)) {
            float f = dt == DT_BF16 ? bf16_to_f32(*(uint16_t *)(void *)got) : *(float *)(void *)got;
            if (dt == DT_F64 ? !isnan(*(double *)(void *)got) : !isnan(f)) return false;
        } else if (memcmp(want, got, (size_t)dtype_bytes(dt)) != 0) {
            return false;
        }
    }
    return true;
}

// --- one group, one type
static drv_status reductions(comm *self, comm_group *group, dtype dt, comm_join join,
        int64_t n_values, bool nan) {
    arena *a = arena_new("reductions");
    const int size = group_size(group), me = group_place(group);
    void *buffer = made(a, dt, comm_rank(self), n_values, nan);
    void *scratch = arena_alloc(a, (size_t)wire_scratch(dt, n_values, size) + 1);
    DRV_TRY(comm_all_reduce(group, dt, join, buffer, n_values, n_values % 2 ? scratch : NULL));
    EXPECT(self, is_joined(dt, join, group, buffer, 0, n_values, nan));
    // Uneven: place k has k + n / size elements, the last what is left.
    int64_t *counts = ARENA_ARRAY(a, int64_t, size), before = 0, left = n_values;
    for (int k = 0; k < size; k++) {
        counts[k] =
                k + 1 == size ? left : (k + n_values / size < left ? k + n_values / size : left);
        left -= counts[k];
        before += k < me ? counts[k] : 0;
    }
    buffer = made(a, dt, comm_rank(self), n_values, nan);
    void *out = arena_alloc(a, (size_t)(counts[me] * dtype_bytes(dt)) + 1);
    DRV_TRY(comm_reduce_scatter(group, dt, join, buffer, n_values, counts, out, NULL));
    EXPECT(self, is_joined(dt, join, group, out, before, counts[me], nan));
    if (n_values % size == 0) {
        DRV_TRY(comm_reduce_scatter(group, dt, join, buffer, n_values, NULL, buffer, scratch));
        EXPECT(self,
                is_joined(dt, join, group, buffer, me * n_values / size, n_values / size, nan));
    }
    arena_free(a);
    return DRV_OK;
}

static unsigned char byte_of(int from, int to, int64_t i) {
    return (unsigned char)(from * 31 + to * 7 + i * 13 + 1);
}

// Place i sends 3 i + j bytes to place j.
static drv_status moves(comm *self, comm_group *group) {
    arena *a = arena_new("moves");
    const int size = group_size(group), me = group_place(group);
    int64_t *to = ARENA_ARRAY(a, int64_t, size), *from = ARENA_ARRAY(a, int64_t, size);
    unsigned char *in = arena_alloc(a, 4096), *out = arena_alloc(a, 4096);
    int64_t at = 0;
    for (int k = 0; k < size; k++) {
        to[k] = 3 * me + k;
        from[k] = 3 * k + me;
        for (int64_t i = 0; i < to[k]; i++)
            in[at++] = byte_of(me, k, i);
    }
    DRV_TRY(comm_all_to_all(group, in, to, out, from, 0));
    at = 0;
    for (int k = 0; k < size; k++)
        for (int64_t i = 0; i < from[k]; i++)
            EXPECT(self, out[at++] == byte_of(k, me, i));
    int64_t *bytes = ARENA_ARRAY(a, int64_t, size);
    for (int k = 0; k < size; k++)
        bytes[k] = k == 1 ? 0 : 5 + k;
    for (int64_t i = 0; i < bytes[me]; i++)
        in[i] = byte_of(me, 99, i);
    DRV_TRY(comm_all_gather(group, in, 0, bytes, out));
    at = 0;
    for (int k = 0; k < size; k++)
        for (int64_t i = 0; i < bytes[k]; i++)
            EXPECT(self, out[at++] == byte_of(k, 99, i));
    for (int root = 0; root < size; root++) {
        memset(in, me == root ? 40 + root : 0, 1000);
        DRV_TRY(comm_broadcast(group, root, in, 1000));
        EXPECT(self, in[0] == 40 + root && in[999] == 40 + root);
    }
    DRV_TRY(comm_barrier(group));
    arena_free(a);
    return DRV_OK;
}

// Both directions begun before any is waited for; three messages between two ranks keep their order.
static drv_status messages(comm *c, comm_group *g) {
    const int size = group_size(g), me = group_place(g);
    int32_t out[3] = {me, me + 1000, me + 2000}, in[3] = {0};
    comm_transfer t[6];
    bool done = false;
    for (int k = 0; k < 3; k++)
        comm_receive(g, (me + size - 1) % size, &in[k], 4, &t[k]);
    for (int k = 0; k < 3; k++)
        comm_send(g, (me + 1) % size, &out[k], 4, &t[3 + k]);
    for (int tries = 0; tries < 100 && !done; tries++)
        DRV_TRY(comm_test(g, t, 6, &done));
    DRV_TRY(comm_wait(g, "messages", t, 6));
    for (int k = 0; k < 3; k++)
        EXPECT(c, in[k] == (me + size - 1) % size + 1000 * k);
    return DRV_OK;
}

static drv_status sent_bytes(comm *c, comm_group *g) {
    const int64_t n = 6000, size = group_size(g), before = comm_sent(g);
    float *x = mem_zeroed(sizeof *x * (size_t)n);
    DRV_TRY(comm_all_reduce(g, DT_F32, COMM_SUM, x, n, NULL));
    free(x);
    // Each rank sends all parts but its own, then its own to all others.
    const int64_t me = group_place(g), own = (me + 1) * n / size - me * n / size;
    EXPECT(c, comm_sent(g) - before == 4 * ((n - own) + own * (size - 1)));
    return DRV_OK;
}

// Of two ranks at most the longest: their parts are more than a thread's turn in join.c (32768).
static int64_t length_of(int i, int n_ranks) {
    static const int64_t lengths[] = {0, 1, 2, 7, 24, 1000, 5040};
    if (i < (int)(sizeof lengths / sizeof *lengths)) return lengths[i];
    return n_ranks <= 2 ? 70001 : 5501;
}

// Sums and maxima of every length; of every second one with NaN, where the type has it.
static drv_status reductions_of_type(comm *self, comm_group *group, dtype dt) {
    enum { N_LENGTHS = 8 };
    const bool real = dt == DT_F32 || dt == DT_BF16 || dt == DT_F64;
    for (int i = 0; i < N_LENGTHS; i++)
        for (int join = 0; join < 2; join++)
            DRV_TRY(reductions(self, group, dt, (comm_join)join, length_of(i, comm_size(self)),
                    real && i % 2));
    return DRV_OK;
}

static drv_status every_collective(comm *self, void *ctx) {
    (void)ctx;
    comm_group *groups[3] = {comm_all_ranks(self)};
    int n_groups = 1;
    const int size = comm_size(self);
    if (size % 2 == 0) { // data x tensor
        const mesh m = {.size = {1, size / 2, 1, 2}};
        groups[n_groups++] = comm_axes(self, &m, 1 << AXIS_DATA);
        groups[n_groups++] = comm_axes(self, &m, 1 << AXIS_TENSOR);
        EXPECT(self, group_size(groups[1]) == size / 2 && group_size(groups[2]) == 2);
        EXPECT(self, group_rank(groups[2], 0) == comm_rank(self) / 2 * 2);
        EXPECT(self, comm_axes(self, &m, 1 << AXIS_DATA) == groups[1]);
    }
    for (int k = 0; k < n_groups; k++) {
        for (int t = 0; t < N_TYPES; t++)
            DRV_TRY(reductions_of_type(self, groups[k], types[t]));
        DRV_TRY(moves(self, groups[k]));
        if (group_size(groups[k]) == 1) continue;
        DRV_TRY(messages(self, groups[k]));
        DRV_TRY(sent_bytes(self, groups[k]));
    }
    return DRV_OK;
}

TEST(threads_join_as_the_reference) {
    static const int sizes[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        OK(comm_run_threads(sizes[i], 1, NULL, every_collective, NULL));
}

TEST(processes_join_as_the_reference) {
    const char *out = path_join(a, temporary_dir(a), "out");
    for (int n = 2; n <= 4 && has_mpirun(); n++)
        if (exit_of(start_mpirun(n, "collectives", "", out)) != 0)
            fail_msg("%d processes: %s", n, text_of(a, out));
}

// --- failures agree
static drv_status one_fails(comm *c, void *ctx) {
    const int who = *(const int *)ctx;
    drv_status mine = DRV_OK;
    if (comm_rank(c) == who) mine = drv_fail(DRV_E_IO, "no space left");
    return comm_agree_on_first(c, mine);
}

static drv_status one_gives_up(comm *c, void *ctx) {
    const int who = *(const int *)ctx;
    if (comm_rank(c) == who) return drv_fail(DRV_E_DATA, "bad row 17");
    float x[3] = {0};
    for (;;)
        DRV_TRY(comm_all_reduce(comm_all_ranks(c), DT_F32, COMM_SUM, x, 3, NULL));
}

TEST(a_failure_ends_all_with_its_message) {
    for (int who = 0; who < 4; who++) {
        FAILS(comm_run_threads(4, 1, NULL, one_fails, &who), DRV_E_IO, "no space left");
        FAILS(comm_run_threads(4, 1, NULL, one_gives_up, &who), DRV_E_DATA, "bad row 17");
    }
}

// In the place of the C library's: a thread of the ring stands still here, as on a busy machine,
// until the main one has told all that it has to and waits for the end of this one, at last
// without a limit.
static atomic_bool halts, halted, joins;
ssize_t send(int fd, const void *bytes, size_t n, int flags) {
    if (atomic_exchange(&halts, false)) {
        halted = true;
        while (!joins)
            usleep(1000);
    }
    return sendto(fd, bytes, n, flags, NULL, 0);
}

int pthread_join(pthread_t thread, void **result) {
    int (*real)(pthread_t, void **);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_join");
    joins = true;
    return real(thread, result);
}

// While its ring's thread stands still, for longer than it is waited for.
static drv_status one_gives_up_alone(comm *c, void *ctx) {
    if (comm_rank(c) == *(const int *)ctx) {
        halts = true;
        while (!halted)
            usleep(1000);
    }
    return one_gives_up(c, ctx);
}

TEST(processes_print_it_once) {
    static const char *const parts[] = {"gives up", "gives up alone"};
    const char *out = path_join(a, temporary_dir(a), "out");
    for (int i = 0; i < 2 && has_mpirun(); i++) {
        assert_int_equal(exit_of(start_mpirun(3, parts[i], "", out)), 1);
        const char *text = text_of(a, out), *first = strstr(text, "bad row 17");
        if (!first || strstr(first + 1, "bad row 17") || strstr(text, "died"))
            fail_msg("%s: %s", parts[i], text);
    }
}

// --- two threads of each rank
typedef struct second_thread {
    comm *c;
    drv_status status;
} second_thread;

static drv_status sums_of_ranks(comm *c, int rounds, double factor) {
    for (int i = 0; i < rounds; i++) {
        double x[600];
        for (int k = 0; k < 600; k++)
            x[k] = factor * (comm_rank(c) + k + i);
        DRV_TRY(comm_all_reduce(comm_all_ranks(c), DT_F64, COMM_SUM, x, 600, NULL));
        const int n = comm_size(c);
        for (int k = 0; k < 600; k++)
            EXPECT(c, x[k] == factor * (n * (k + i) + n * (n - 1) / 2));
    }
    return DRV_OK;
}

static void *sum_both(void *arg) {
    second_thread *b = arg;
    b->status = sums_of_ranks(b->c, 100, 3);
    return NULL;
}

static drv_status duplicates_sum(comm *c, void *ctx) {
    (void)ctx;
    second_thread b = {.c = comm_duplicate(c)};
    pthread_t thread;
    EXPECT(c, pthread_create(&thread, NULL, sum_both, &b) == 0);
    drv_status status = sums_of_ranks(c, 100, 5);
    pthread_join(thread, NULL);
    comm_duplicate_close(b.c);
    if (status == DRV_OK && b.status != DRV_OK)
        return drv_fail(b.status, "the second thread of rank %d", comm_rank(c));
    return status;
}

TEST(a_rank_may_have_two_threads) {
    const char *out = path_join(a, temporary_dir(a), "out");
    OK(comm_run_threads(4, 1, NULL, duplicates_sum, NULL));
    if (has_mpirun() && exit_of(start_mpirun(3, "duplicates", "", out)) != 0)
        fail_msg("%s", text_of(a, out));
}

// --- what all agree on
static drv_status two_fail(comm *c, void *ctx) {
    (void)ctx;
    const int me = comm_rank(c);
    OK(comm_agree_on_first(c, DRV_OK));
    drv_status mine = DRV_OK;
    if (me == 1) mine = drv_fail(DRV_E_IO, "no space left");
    if (me == 2) mine = drv_fail(DRV_E_DATA, "bad row");
    EXPECT(c, comm_agree_on_first(c, mine) == DRV_E_IO);
    EXPECT(c, strncmp(drv_message(), "rank 1 (", 8) == 0 &&
                      strstr(drv_message(), "): no space left"));
    return DRV_OK;
}

TEST(all_hear_of_the_first_failure) {
    OK(comm_run_threads(4, 1, NULL, two_fail, NULL));
}

// --- the record of operations
static drv_status record_in(comm *self, void *dir) {
    return comm_record(self, dir);
}

// posix_fallocate returns its error and does not set errno.
TEST(a_full_disk_is_named) {
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){1000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const drv_status status =
            comm_run_threads(2, 1, NULL, record_in, (void *)(uintptr_t)temporary_dir(a));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    FAILS(status, DRV_E_IO, "File too large");
}

// Anybody may cut a file of text short; the rank that writes it must not end by SIGBUS.
static drv_status sums_after_a_cut(comm *self, void *dir) {
    char path[1100];
    float value = 1;
    snprintf(path, sizeof path, "%s/rank-%05d.txt", (const char *)dir, comm_rank(self));
    DRV_TRY(comm_record(self, dir));
    DRV_TRY(comm_barrier(comm_all_ranks(self)));
    EXPECT(self, truncate(path, 0) == 0);
    for (int i = 0; i < 3; i++)
        DRV_TRY(comm_all_reduce(comm_all_ranks(self), DT_F32, COMM_SUM, &value, 1, NULL));
    return DRV_OK;
}

TEST(a_record_may_be_cut_short) {
    const char *dir = temporary_dir(a);
    char *text;
    size_t n;
    OK(comm_run_threads(2, 1, NULL, sums_after_a_cut, (void *)(uintptr_t)dir));
    OK(file_read(a, path_join(a, dir, "rank-00001.txt"), &text, &n));
    assert_non_null(memmem(text, n, "all_reduce", 10));
}

int main(int argc, char **argv) {
    int who = 1;
    if (argc > 1 && strcmp(argv[1], "duplicates") == 0) return play(duplicates_sum, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "collectives") == 0) return play(every_collective, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "gives up") == 0) return play(one_gives_up, &who, NULL);
    if (argc > 1 && strcmp(argv[1], "gives up alone") == 0)
        return play(one_gives_up_alone, &who, NULL);
    return tests_run();
}
