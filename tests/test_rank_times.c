// Which rank is the slowest, and what for; means that all ranks of a run share.
#include "ranks.h"

#include "record/rank_times.h"

TEST(the_slowest_rank_and_its_reason) {
    static const struct {
        const char *what;
        rank_time of[3]; // compute, data, save, wait, sent
        int slowest;
        const char *reason;
    } cases[] = {
            {"computes", {{1, 0, 0, 1, 0, 0, 0}, {2, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 1, 0, 0, 0}}, 1,
                    "compute"},
            {"waits for its rows",
                    {{1, 0, 0, 1, 0, 0, 0}, {1, 0, 0, 1, 0, 0, 0}, {1, 1, 0, 0, 0, 0, 0}}, 2,
                    "data"},
            {"waits for its disk",
                    {{1, 0.1, 0.9, 0, 0, 0, 0}, {1, 0, 0, 1, 0, 0, 0}, {1, 0, 0, 1, 0, 0, 0}}, 0,
                    "save"},
            {"a little of all",
                    {{1, 0, 0, 1, 0, 0, 0}, {1.5, 0.6, 0, 0, 0, 0, 0}, {1, 0, 0, 1, 0, 0, 0}}, 1,
                    "data"},
            {"all alike",
                    {{1, 0, 0, 0.1, 0, 0, 0}, {1.01, 0, 0, 0.1, 0, 0, 0}, {1, 0, 0, 0.1, 0, 0, 0}},
                    1, "compute"},
            {"messages take longest",
                    {{1, 0, 0, 4, 0, 0, 0}, {1.01, 0, 0, 4, 0, 0, 0}, {1, 0, 0, 4, 0, 0, 0}}, 1,
                    "wait"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *reason;
        const int slowest = rank_times_slowest(cases[i].of, 3, &reason);
        if (slowest != cases[i].slowest || strcmp(reason, cases[i].reason) != 0)
            fail_msg("%s: rank %d (%s)", cases[i].what, slowest, reason);
    }
}

// Two steps, the second one of rank r takes r seconds more.
static drv_status share(comm *self, void *ctx) {
    (void)ctx;
    arena *a = arena_new("test");
    const int rank = comm_rank(self);
    rank_times t = rank_times_new(a, self);
    OK(rank_times_share(&t)); // nothing was added
    EXPECT(self, t.n == 0);
    rank_times_add(&t, &(rank_time){.compute = 1});
    rank_times_add(&t, &(rank_time){.compute = 1 + rank, .wait = 3 - rank, .sent = 8 * rank});
    if (rank % 2 == 0) rank_times_set_energy(&t, 100 + rank, 2); // of two hosts
    OK(rank_times_share(&t));
    for (int i = 0; i < 4; i++)
        EXPECT(self,
                t.of[i].energy_steps == (i % 2 ? 0 : 2) && (i % 2 || t.of[i].joules == 100 + i));
    EXPECT(self, t.n == 4 && t.slowest == 3 && strcmp(t.reason, "compute") == 0 && t.steps == 0);
    for (int i = 0; i < t.n; i++)
        EXPECT(self, t.of[i].compute == 1 + i / 2.0 && t.of[i].wait == (3 - i) / 2.0 &&
                             t.of[i].sent == 4 * i);
    const int64_t before = comm_sent_by(self);
    OK(comm_barrier(comm_all_ranks(self)));
    EXPECT(self, comm_sent_by(self) - before == 2); // a byte in each of two rounds
    arena_free(a);
    return DRV_OK;
}

// Each step of the last few, on every rank.
static drv_status share_recent(comm *self, void *ctx) {
    (void)ctx;
    arena *a = arena_new("test");
    const int rank = comm_rank(self);
    rank_times t = rank_times_new(a, self);
    for (int step = 1; step <= 3 * RECENT_STEPS; step++) {
        bool there;
        rank_times_add(&t, &(rank_time){.compute = step, .data = rank, .save = 0.5, .wait = 2});
        OK(rank_times_share_recent(&t, &there));
        EXPECT(self, there == (step % RECENT_STEPS == 0));
        for (int i = 0; there && i < RECENT_STEPS; i++) {
            const rank_time *of = rank_times_recent(&t, i);
            for (int k = 0; k < comm_size(self); k++)
                EXPECT(self, of[k].compute == step - RECENT_STEPS + 1 + i && of[k].data == k &&
                                     of[k].save == 0.5 && of[k].wait == 2);
        }
    }
    arena_free(a);
    return DRV_OK;
}

TEST(all_ranks_know_each_step) {
    OK(comm_run_threads(3, 1, NULL, share_recent, NULL));
}

TEST(all_ranks_know_the_means_of_all) {
    OK(comm_run_threads(4, 1, NULL, share, NULL));
}

static drv_status waits(comm *self, void *ctx) {
    (void)ctx;
    const double before = comm_waited(self);
    rank_view other = {0};
    while (comm_rank(self) == 1 && !*other.op) { // until it is in the barrier
        usleep(1000);
        comm_view_rank(self, 0, &other);
    }
    OK(comm_barrier(comm_all_ranks(self)));
    const double waited = comm_waited(self) - before;
    EXPECT(self, comm_rank(self) == 1 || waited > 0);
    return DRV_OK;
}

TEST(waiting_for_messages_is_counted) {
    OK(comm_run_threads(2, 1, NULL, waits, NULL));
}
