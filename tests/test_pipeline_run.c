// The interpreter of schedules with works that only wait: who gets what from whom, and when. Each
// rank counts the time of its works, and a message carries its sender's count (L. Lamport, "Time,
// Clocks, and the Ordering of Events in a Distributed System", 1978): so a run has a length that
// follows from its order alone, however busy the machine is, and it is what the simulator says.
#include "ranks.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "programs/pipeline_run.h"

enum { RANKS = 4, MESSAGE = 256 * 1024 };

typedef struct waiting { // one rank's works
    comm *c;
    const pipeline_schedule *schedule;
    double unit_s, clock_s;   // of a forward or half a backward of a whole stage; so far
    int n_rounds, stop_after; // rounds that are over; after which it stops
    int n_computed;
} waiting;

typedef struct letter { // both ends of a message
    int stamp;
    double clock_s;
} letter;

// A message says which task of which stage it is of.
static int stamp(const waiting *w, const pipeline_task *item, int stages_away) {
    const int stage = pipeline_stage(&w->schedule->shape, comm_rank(w->c), item) + stages_away;
    return 1 + stage * 1000 + item->micro_batch + (item->work == WORK_FORWARD ? 0 : 500);
}

static drv_status take(void *ctx, const pipeline_task *item, const void *message) {
    waiting *w = ctx;
    comm *c = w->c;
    EXPECT(c, pipeline_receives(&w->schedule->shape, comm_rank(c), item) == (message != NULL));
    if (!message) return DRV_OK;
    letter first, last;
    memcpy(&first, message, sizeof first);
    memcpy(&last, (const char *)message + MESSAGE - sizeof last, sizeof last);
    const int want = stamp(w, item, item->work == WORK_FORWARD ? -1 : 1);
    EXPECT(c, first.stamp == want && last.stamp == want);
    if (first.clock_s > w->clock_s) w->clock_s = first.clock_s;
    return DRV_OK;
}

static void rest(double seconds) {
    const struct timespec time = {0, (long)(seconds * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static drv_status compute(void *ctx, const pipeline_task *item) {
    waiting *w = ctx;
    const double units = item->work == WORK_BACKWARD ? 2 : 1;
    const double seconds = units * w->unit_s / w->schedule->shape.chunks;
    if (seconds > 0) rest(seconds);
    w->clock_s += seconds;
    w->n_computed++;
    return DRV_OK;
}

static drv_status give(void *ctx, const pipeline_task *item, void *message) {
    const waiting *w = ctx;
    const letter both = {stamp(w, item, 0), w->clock_s};
    memcpy(message, &both, sizeof both);
    memcpy((char *)message + MESSAGE - sizeof both, &both, sizeof both);
    return DRV_OK;
}

typedef struct timed {
    const pipeline_schedule *schedule;
    double unit_s, seconds; // a work; all of rank 0 by the machine's clock
    double ends_s[RANKS];   // by the ranks' own counts
    int64_t sent;           // by rank 1
} timed;

static drv_status run_rank(comm *c, void *ctx) {
    timed *t = ctx;
    arena *a = arena_new("link");
    const mesh m = {.size = {RANKS, 1, 1, 1}};
    waiting w = {.c = c, .schedule = t->schedule, .unit_s = t->unit_s};
    const pipeline_actions actions = {.ctx = &w, .take = take, .compute = compute, .give = give};
    pipeline_link *link = pipeline_link_new(a, c, &m, MESSAGE);
    drv_status status = comm_barrier(comm_all_ranks(c));
    const double begin = clock_s();
    if (status == DRV_OK) status = pipeline_run(link, t->schedule, &actions);
    if (status == DRV_OK) status = comm_barrier(comm_all_ranks(c));
    if (comm_rank(c) == 0) t->seconds = clock_s() - begin;
    t->ends_s[comm_rank(c)] = w.clock_s;
    if (comm_rank(c) == 1) t->sent = comm_sent(link->forward) + comm_sent(link->backward);
    arena_free(a);
    return status;
}

TEST(the_bubble_is_that_of_the_table) {
    static const pipeline_shape shapes[] = {{PIPELINE_GPIPE, RANKS, 1, 8, 0, false},
            {PIPELINE_1F1B, RANKS, 1, 8, 0, false}, {PIPELINE_INTERLEAVED, RANKS, 2, 8, 0, false},
            {PIPELINE_ZB_H1, RANKS, 1, 8, 0, false}};
    enum { STAGES = 2 * RANKS };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        pipeline_schedule schedule;
        pipeline_result simulated;
        double each[STAGES], end = 0;
        timed t = {.schedule = &schedule, .unit_s = 0.004};
        OK(pipeline_build(a, &shapes[i], &schedule));
        for (int s = 0; s < STAGES; s++)
            each[s] = t.unit_s / shapes[i].chunks;
        OK(pipeline_time(a, &shapes[i], &(pipeline_cost){each, each, each, 0}, &simulated));
        OK(comm_run_threads(RANKS, 1, NULL, run_rank, &t));
        for (int r = 0; r < RANKS; r++)
            end = t.ends_s[r] > end ? t.ends_s[r] : end;
        print_message("%s: bubble %.3f, simulated %.3f; %.3f s on this machine, %.3f s at best\n",
                pipeline_kind_name(shapes[i].kind),
                1 - (1 - simulated.bubble) * simulated.seconds / end, simulated.bubble, t.seconds,
                simulated.seconds);
        assert_true(fabs(end - simulated.seconds) < 1e-9);
        // Rank 1 is never the last or the first stage: it sends both ways for each micro-batch.
        assert_int_equal(t.sent, 2LL * shapes[i].micro_batches * shapes[i].chunks * MESSAGE);
    }
}

// A rank that fails in the middle ends all, with its message, and no message goes astray.
static drv_status fails(void *ctx, const pipeline_task *item) {
    const waiting *w = ctx;
    if (comm_rank(w->c) == 2 && item->micro_batch == 3)
        return drv_fail(DRV_E_DEVICE, "no more memory");
    return compute(ctx, item);
}

static drv_status run_failing(comm *c, void *ctx) {
    const pipeline_schedule *schedule = ctx;
    arena *a = arena_new("link");
    const mesh m = {.size = {RANKS, 1, 1, 1}};
    waiting w = {.c = c, .schedule = schedule, .unit_s = 0.001};
    const pipeline_actions actions = {.ctx = &w, .take = take, .compute = fails, .give = give};
    const drv_status status =
            pipeline_run(pipeline_link_new(a, c, &m, MESSAGE), schedule, &actions);
    arena_free(a);
    return status;
}

TEST(a_rank_that_fails_ends_all) {
    const pipeline_shape shape = {PIPELINE_1F1B, RANKS, 1, 8, 0, false};
    pipeline_schedule schedule;
    OK(pipeline_build(a, &shape, &schedule));
    FAILS(comm_run_threads(RANKS, 1, NULL, run_failing, &schedule), DRV_E_DEVICE, "no more memory");
}

// --- rounds
// All ranks meet after each round: none may need what another one does later.
static drv_status meet(void *ctx) {
    waiting *w = ctx;
    DRV_TRY(comm_barrier(comm_all_ranks(w->c)));
    return ++w->n_rounds == w->stop_after ? drv_fail(DRV_STOPPED, "after round %d", w->n_rounds)
                                          : DRV_OK;
}

typedef struct stopped_run {
    const pipeline_schedule *schedule;
    int stop_after;
} stopped_run;

static drv_status run_until_stopped(comm *self, void *ctx) {
    const stopped_run *asked = ctx;
    arena *a = arena_new("link");
    const mesh m = {.size = {RANKS, 1, 1, 1}};
    waiting w = {.c = self, .schedule = asked->schedule, .stop_after = asked->stop_after};
    pipeline_actions actions = {.ctx = &w,
            .take = take,
            .compute = compute,
            .give = give,
            .after_round = meet};
    actions.round = pipeline_rounds(a, asked->schedule, comm_rank(self), &actions.n_rounds);
    pipeline_link *link = pipeline_link_new(a, self, &m, MESSAGE);
    int n_before = 0; // tasks of the rounds that were computed
    for (int i = 0; i < asked->schedule->n_tasks; i++)
        n_before += actions.round[i] <= asked->stop_after;
    const bool stops = asked->stop_after < actions.n_rounds;
    const drv_status status = pipeline_run(link, asked->schedule, &actions);
    EXPECT(self, status == (stops ? DRV_STOPPED : DRV_OK));
    EXPECT(self, w.n_computed == n_before &&
                         w.n_rounds == (stops ? asked->stop_after : actions.n_rounds - 1));
    arena_free(a);
    return comm_barrier(comm_all_ranks(self));
}

TEST(all_ranks_may_stop_after_the_same_round) {
    static const pipeline_shape shapes[] = {{PIPELINE_GPIPE, RANKS, 1, 5, 0, false},
            {PIPELINE_1F1B, RANKS, 1, 6, 0, false}, {PIPELINE_1F1B, RANKS, 1, 1, 0, false},
            {PIPELINE_INTERLEAVED, RANKS, 2, 8, 0, false}, {PIPELINE_ZB_H1, RANKS, 1, 6, 0, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        pipeline_schedule schedule;
        int n_rounds;
        OK(pipeline_build(a, &shapes[i], &schedule));
        pipeline_rounds(a, &schedule, 0, &n_rounds);
        assert_true(n_rounds >= schedule.n_tasks);
        for (int stop_after = 1; stop_after <= n_rounds; stop_after++) {
            stopped_run t = {&schedule, stop_after};
            OK(comm_run_threads(RANKS, 1, NULL, run_until_stopped, &t));
        }
    }
}
