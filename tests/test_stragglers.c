// Which ranks are named as slow, of simulated times: every cause, and that noise names nobody.
#include <math.h>

#include "base/rng.h"
#include "harness.h"
#include "record/stragglers.h"

enum { RANKS = 8, FIRST = 5 };

typedef struct cluster {
    arena *mem;
    stragglers *found;
    int n, stages[RANKS], hosts[RANKS];
    uint64_t draws;
    int64_t step;
    double noisy;       // every rank takes up to so many times longer, another one each step
    double slow[RANKS]; // factor of its computing
    double data[RANKS], save[RANKS];
    straggler told[64];
    int n_told;
} cluster;

static cluster make(int n, int n_stages, int ranks_per_host) {
    cluster w = {.mem = arena_new("test"), .n = n};
    for (int i = 0; i < RANKS; i++)
        w.slow[i] = 1;
    return w.stages[0] = n_stages, w.hosts[0] = ranks_per_host, w;
}

static void open_cluster(cluster *w) {
    const int n_stages = w->stages[0], per_host = w->hosts[0];
    for (int i = 0; i < w->n; i++) {
        w->stages[i] = i * n_stages / w->n;
        w->hosts[i] = i / per_host;
    }
    w->found = stragglers_new(w->mem, w->n, w->stages, w->hosts, 1.2);
}

static double chance(cluster *w) {
    return 0.5 + 0.5 * noise(17, w->draws++);
}

static void steps(cluster *w, int count) {
    for (int k = 0; k < count; k++) {
        rank_time of[RANKS];
        double longest = 0;
        for (int i = 0; i < w->n; i++) {
            const double busy = chance(w) < 0.3 ? w->noisy * chance(w) : 0;
            of[i] = (rank_time){.compute = (1 + 0.02 * chance(w) + busy) * w->slow[i] *
                                           (1 + w->stages[i]),
                    .data = w->data[i],
                    .save = w->save[i]};
            longest = fmax(longest, rank_time_own(&of[i]));
        }
        for (int i = 0; i < w->n; i++)
            of[i].wait = longest - rank_time_own(&of[i]) + 0.01;
        stragglers_add(w->found, ++w->step, of);
        while (stragglers_next(w->found, &w->told[w->n_told]))
            assert_true(++w->n_told < 64);
    }
}

static void shut(cluster *w) {
    arena_free(w->mem);
}

TEST(a_slow_rank_is_named_and_its_end) {
    for (int rank = 0; rank < 4; rank++) {
        cluster w = make(4, 1, 2);
        open_cluster(&w);
        steps(&w, 50);
        assert_int_equal(w.n_told, 0);
        w.slow[rank] = 2;
        steps(&w, 30);
        assert_int_equal(w.n_told, 1);
        assert_int_equal(w.told[0].rank, rank);
        assert_false(w.told[0].over || w.told[0].whole_host);
        assert_string_equal(w.told[0].reason, "compute");
        assert_true(fabs(w.told[0].ratio - 2) < 0.1);
        assert_int_equal(w.told[0].step, 51);
        steps(&w, 100); // it is said once
        assert_int_equal(w.n_told, 1);
        w.slow[rank] = 1;
        steps(&w, 30);
        assert_int_equal(w.n_told, 2);
        assert_true(w.told[1].over && w.told[1].rank == rank && w.told[1].step > 180);
        shut(&w);
    }
}

TEST(the_reason_is_what_it_has_more_of) {
    for (int save = 0; save < 2; save++) {
        cluster w = make(4, 1, 4);
        open_cluster(&w);
        (save ? w.save : w.data)[2] = 0.5;
        steps(&w, 60);
        assert_int_equal(w.n_told, 1);
        assert_string_equal(w.told[0].reason, save ? "save" : "data");
        shut(&w);
    }
}

TEST(noise_that_all_have_names_nobody) {
    for (int n = 2; n <= 8; n *= 2) {
        cluster w = make(n, 1, n);
        open_cluster(&w);
        w.noisy = 3;
        steps(&w, 5000);
        assert_int_equal(w.n_told, 0);
        for (int i = 0; i < n; i++) // a save that all share, a change that all have
            w.save[i] = 2, w.slow[i] = 3;
        steps(&w, 1000);
        assert_int_equal(w.n_told, 0);
        shut(&w);
    }
}

TEST(a_slow_host_is_named_as_the_host) {
    cluster w = make(8, 2, 2); // hosts 0 and 1 are stage 0, hosts 2 and 3 stage 1
    open_cluster(&w);
    steps(&w, 30);
    w.noisy = 0.5; // they do not become slow at the same step
    w.slow[4] = 1.8;
    w.slow[5] = 1.6;
    steps(&w, 60);
    assert_int_equal(w.n_told, 1);
    assert_true(w.told[0].whole_host && w.told[0].rank == 4 && !w.told[0].over);
    w.slow[4] = w.slow[5] = 1;
    w.noisy = 0;
    steps(&w, 60);
    assert_int_equal(w.n_told, 2);
    assert_true(w.told[1].whole_host && w.told[1].over && w.hosts[w.told[1].rank] == 2);
    shut(&w);
}

TEST(what_is_not_reported) {
    cluster w = make(4, 4, 1); // each rank alone in its stage: the stages differ by design
    open_cluster(&w);
    steps(&w, 200);
    assert_int_equal(w.n_told, 0);
    shut(&w);
    w = make(4, 1, 4);
    open_cluster(&w);
    w.slow[1] = 10; // the first steps
    steps(&w, FIRST + 10);
    w.slow[1] = 1;
    steps(&w, 100);
    assert_int_equal(w.n_told, 0);
    w.slow[1] = 1.15; // below the ratio
    steps(&w, 100);
    assert_int_equal(w.n_told, 0);
    shut(&w);
}
