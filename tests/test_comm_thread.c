// Asynchronous operations of a rank: in order and one at a time on a thread of their own, what
// waits for them, what becomes of them when one fails and at the end, and the bytes that they send.
#include "ranks.h"

#include <stdatomic.h>
#include <string.h>

#include "comm/comm_internal.h"
#include "comm/comm_thread.h"
#include "gate.h"

enum { N_ASYNC_OPS = 24, N_VALUES = 300 };

typedef struct line { // of asynchronous operations that say when they are done
    int order[N_ASYNC_OPS];
    pthread_t by[N_ASYNC_OPS];
    atomic_int n, under_way, most;
} line;

typedef struct step {
    line *to;
    int number;
    int ms; // that it takes
    gate *at;
    bool fails;
} step;

static drv_status do_step(const void *what) {
    const step *one = what;
    line *to = one->to;
    const int now = atomic_fetch_add(&to->under_way, 1) + 1;
    if (now > atomic_load(&to->most)) atomic_store(&to->most, now);
    if (one->at && !gate_pass(one->at)) return drv_fail(DRV_E_DATA, "nobody came");
    pause_ms(one->ms);
    const int place = atomic_load(&to->n);
    to->order[place] = one->number;
    to->by[place] = pthread_self();
    atomic_fetch_sub(&to->under_way, 1);
    atomic_store(&to->n, place + 1);
    return one->fails ? drv_fail(DRV_E_IO, "no space left, said asynchronous operation %d",
                                one->number)
                      : DRV_OK;
}

static drv_status in_order(comm *self, void *ctx) {
    (void)ctx;
    line done = {0};
    step steps[N_ASYNC_OPS];
    comm_thread *sender = comm_thread_open(self);
    for (int i = 0; i < N_ASYNC_OPS; i++) {
        steps[i] = (step){.to = &done, .number = i, .ms = i % 3};
        EXPECT(self, comm_thread_start(sender, do_step, &steps[i], NULL, 0) == i + 1);
        if (i == N_ASYNC_OPS / 2) DRV_TRY(comm_thread_wait(sender, i + 1, NULL, NULL)); // and again
    }
    DRV_TRY(comm_thread_wait(sender, N_ASYNC_OPS, NULL, NULL));
    EXPECT(self, done.n == N_ASYNC_OPS && done.most == 1);
    for (int i = 0; i < N_ASYNC_OPS; i++) {
        EXPECT(self, done.order[i] == i);
        EXPECT(self, !pthread_equal(done.by[i], pthread_self()));
        EXPECT(self, pthread_equal(done.by[i], done.by[0]));
    }
    comm_thread_close(sender);
    return DRV_OK;
}

TEST(one_after_the_other) {
    OK(comm_run_threads(2, 1, NULL, in_order, NULL));
}

// The second asynchronous operation is held until the first one has been waited for.
static drv_status exactly_that(comm *self, void *ctx) {
    (void)ctx;
    line done = {0};
    gate door = GATE_INIT;
    const step first = {.to = &done, .number = 1, .ms = 20},
               second = {.to = &done, .number = 2, .at = &door, .ms = 20};
    comm_thread *sender = comm_thread_open(self);
    const int64_t one = comm_thread_start(sender, do_step, &first, NULL, 0),
                  two = comm_thread_start(sender, do_step, &second, NULL, 0);
    DRV_TRY(comm_thread_wait(sender, one, NULL, NULL));
    EXPECT(self, done.n == 1);
    gate_open(&door);
    DRV_TRY(comm_thread_wait(sender, two, NULL, NULL));
    EXPECT(self, done.n == 2);
    DRV_TRY(comm_thread_wait(sender, one, NULL, NULL)); // long done
    comm_thread_close(sender);
    return DRV_OK;
}

TEST(a_wait_is_for_one_operation) {
    OK(comm_run_threads(2, 1, NULL, exactly_that, NULL));
}

// --- failures
#define EXPECT_FAILED(rank, status)                                                                \
    do {                                                                                           \
        EXPECT(rank, (status) == DRV_E_IO);                                                        \
        EXPECT(rank, strstr(drv_message(), "no space left, said asynchronous operation 1"));       \
    } while (0)

static drv_status second_fails(comm *self, void *ctx) {
    (void)ctx;
    line done = {0};
    step steps[5];
    comm_thread *sender = comm_thread_open(self);
    comm_group *all = comm_thread_group(sender, comm_all_ranks(self));
    for (int i = 0; i < 4; i++) {
        steps[i] = (step){.to = &done, .number = i, .fails = i == 1 || i == 3};
        comm_thread_start(sender, do_step, &steps[i], NULL, 0);
    }
    EXPECT_FAILED(self, comm_thread_wait(sender, 2, NULL, NULL));
    EXPECT_FAILED(self, comm_thread_wait(sender, 3, all, "sum"));
    EXPECT_FAILED(self, comm_thread_wait(sender, 4, NULL, NULL));
    EXPECT_FAILED(self, comm_thread_wait(sender, 1, NULL, NULL));
    steps[4] = (step){.to = &done, .number = 4};
    EXPECT(self, comm_thread_start(sender, do_step, &steps[4], NULL, 0) == 5);
    EXPECT_FAILED(self, comm_thread_wait(sender, 5, all, "sum"));
    EXPECT(self, done.n == 2); // those after it were not begun
    comm_thread_close(sender);
    return DRV_OK;
}

TEST(a_failure_is_told_to_all_who_wait) {
    OK(comm_run_threads(2, 1, NULL, second_fails, NULL));
}

// --- the end
static drv_status close_early(comm *self, void *ctx) {
    (void)ctx;
    line done = {0};
    step steps[3];
    comm_thread *sender = comm_thread_open(self);
    for (int i = 0; i < 3; i++) {
        steps[i] = (step){.to = &done, .number = i, .ms = 20};
        comm_thread_start(sender, do_step, &steps[i], NULL, 0);
    }
    comm_thread_close(sender);
    EXPECT(self, done.n == 3);
    comm_thread_close(comm_thread_open(self)); // without asynchronous operations
    comm_thread_close(NULL);
    return DRV_OK;
}

TEST(the_end_comes_after_all_of_them) {
    OK(comm_run_threads(2, 1, NULL, close_early, NULL));
}

// --- bytes
typedef struct partial_sums {
    comm_group *over;
    double x[N_VALUES];
} partial_sums;

static drv_status add_up(const void *what) {
    partial_sums *a = (partial_sums *)(uintptr_t)what;
    return comm_all_reduce(a->over, DT_F64, COMM_SUM, a->x, N_VALUES, NULL);
}

// Sums go through a communication thread and beside it at the same time, and are not mixed up.
static drv_status sum_both(comm *self, comm_group *group, int round) {
    comm_thread *sender = comm_thread_open(self);
    partial_sums there = {.over = comm_thread_group(sender, group)}, here = {.over = group};
    const int64_t before = comm_sent(group), before_all = comm_sent_by(self);
    EXPECT(self, there.over != group && comm_thread_group(sender, group) == there.over);
    EXPECT(self, group_size(there.over) == group_size(group) && there.over->run == group->run);
    for (int k = 0; k < N_VALUES; k++) {
        there.x[k] = 3 * (group_place(group) + k + round);
        here.x[k] = 5 * (group_place(group) + k + round);
    }
    DRV_TRY(add_up(&here));
    const int64_t sent_here = group->sent - before,
                  number = comm_thread_start(sender, add_up, &there, there.over, sent_here);
    EXPECT(self, comm_sent(group) - before == 2 * sent_here); // whenever they travel
    DRV_TRY(comm_thread_wait(sender, number, there.over, "sum"));
    const int n = group_size(group);
    for (int k = 0; k < N_VALUES; k++) {
        const int sum = n * (k + round) + n * (n - 1) / 2;
        EXPECT(self, there.x[k] == 3 * sum && here.x[k] == 5 * sum);
    }
    EXPECT(self, sent_here > 0 && comm_sent(group) - before == 2 * sent_here);
    EXPECT(self, comm_sent_by(self) - before_all == 2 * sent_here);
    comm_thread_close(sender);
    EXPECT(self, comm_sent(group) - before == 2 * sent_here);
    EXPECT(self, comm_sent_by(self) - before_all == 2 * sent_here);
    return DRV_OK;
}

static drv_status bytes_of_groups(comm *self, void *ctx) {
    (void)ctx;
    const mesh m = {.size = {1, 3, 1, 2}};
    mesh of_context = mesh_single();
    of_context.size[AXIS_CONTEXT] = 2;
    of_context.size[AXIS_DATA] = 3;
    for (int round = 0; round < 3; round++) { // each with a communication thread of its own
        DRV_TRY(sum_both(self, comm_all_ranks(self), round));
        DRV_TRY(sum_both(self, comm_axes(self, &m, 1 << AXIS_DATA), round));
        DRV_TRY(sum_both(self, comm_update_ranks(self, &of_context), round));
    }
    return DRV_OK;
}

TEST(bytes_count_as_those_of_the_group) {
    OK(comm_run_threads(6, 1, NULL, bytes_of_groups, NULL));
}

// --- waiting
typedef struct watched_wait {
    comm *of;
    bool seen; // what the rank waits for
} watched_wait;

static drv_status until_named(const void *what) {
    watched_wait *w = (watched_wait *)(uintptr_t)what;
    for (int i = 0; i < 20000 && !w->seen; i++) {
        w->seen = strcmp(comm_status_now(w->of).op, "sum_shard over all ranks") == 0;
        if (!w->seen) pause_ms(1);
    }
    return DRV_OK;
}

typedef struct other_thread {
    comm_thread *sender;
    int64_t number;
    drv_status status;
} other_thread;

static void *wait_elsewhere(void *arg) {
    other_thread *t = arg;
    t->status = comm_thread_wait(t->sender, t->number, NULL, NULL);
    return NULL;
}

// Seen by the watchdog and in the times of ranks, as a collective is; but not where another thread
// of the rank waits.
static drv_status named_and_timed(comm *self, void *ctx) {
    (void)ctx;
    line done = {0};
    gate door = GATE_INIT;
    pthread_t thread;
    comm_thread *sender = comm_thread_open(self);
    watched_wait rank = {.of = self};
    comm_group *all = comm_thread_group(sender, comm_all_ranks(self));
    const double before = comm_waited(self);
    int64_t number = comm_thread_start(sender, until_named, &rank, NULL, 0);
    DRV_TRY(comm_thread_wait(sender, number, all, "sum_shard"));
    EXPECT(self, rank.seen);
    EXPECT(self, strcmp(comm_status_now(self).op, "") == 0);
    EXPECT(self, comm_waited(self) > before);
    const double so_far = comm_waited(self);
    const uint64_t operations = comm_status_now(self).sequence;
    const step held = {.to = &done, .at = &door, .ms = 20};
    number = comm_thread_start(sender, do_step, &held, NULL, 0);
    other_thread other = {sender, number, DRV_E_DATA};
    EXPECT(self, pthread_create(&thread, NULL, wait_elsewhere, &other) == 0);
    gate_open(&door);
    pthread_join(thread, NULL);
    EXPECT(self, other.status == DRV_OK && done.n == 1);
    EXPECT(self, comm_waited(self) == so_far);
    EXPECT(self, comm_status_now(self).sequence == operations);
    comm_thread_close(sender);
    return DRV_OK;
}

TEST(the_ranks_own_waiting_shows) {
    OK(comm_run_threads(2, 1, NULL, named_and_timed, NULL));
}
