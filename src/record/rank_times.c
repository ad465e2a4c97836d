// Gathers the times of all ranks' steps, and finds the slowest rank.
#include "record/rank_times.h"

#include <string.h>

// A difference below this share of a step is noise: no rank counts as the slowest.
#define STANDS_OUT 0.05

rank_times rank_times_new(arena *a, comm *c) {
    const int n = comm_size(c);
    return (rank_times){.comm = c,
            .recent = arena_alloc(a, sizeof(float[RECENT_STEPS][4])),
            .recent_of = ARENA_ARRAY(a, float, (int64_t)n *RECENT_STEPS * 4),
            .step_of = ARENA_ARRAY(a, rank_time, n),
            .of = ARENA_ARRAY(a, rank_time, n),
            .reason = ""};
}

void rank_times_add(rank_times *t, const rank_time *step) {
    t->sum.compute += step->compute;
    t->sum.data += step->data;
    t->sum.save += step->save;
    t->sum.wait += step->wait;
    t->sum.sent += step->sent;
    t->steps++;
    float *recent = t->recent[t->n_recent++ % RECENT_STEPS];
    recent[0] = (float)step->compute;
    recent[1] = (float)step->data;
    recent[2] = (float)step->save;
    recent[3] = (float)step->wait;
}

void rank_times_set_energy(rank_times *t, double joules, int64_t steps) {
    t->sum.joules = joules;
    t->sum.energy_steps = (double)steps;
}

double rank_time_own(const rank_time *t) {
    return t->compute + t->data + t->save;
}

static rank_time mean_of_others(const rank_time *of, int n, int but) {
    rank_time mean = {0};
    for (int i = 0; i < n; i++) {
        if (i == but) continue;
        mean.compute += of[i].compute / (n - 1);
        mean.data += of[i].data / (n - 1);
        mean.save += of[i].save / (n - 1);
        mean.wait += of[i].wait / (n - 1);
    }
    return mean;
}

int rank_times_slowest(const rank_time *of, int n, const char **reason) {
    int slowest = 0;
    for (int i = 1; i < n; i++)
        if (rank_time_own(&of[i]) > rank_time_own(&of[slowest])) slowest = i;
    const rank_time *most = &of[slowest], others = mean_of_others(of, n, slowest);
    const double compute = most->compute - others.compute, data = most->data - others.data,
                 save = most->save - others.save, own = rank_time_own(most);
    const bool stands_out = own - rank_time_own(&others) > STANDS_OUT * (own + most->wait);
    *reason = save > compute && save > data ? "save" : data > compute ? "data" : "compute";
    if (!stands_out) *reason = most->wait > own ? "wait" : "compute";
    return slowest;
}

drv_status rank_times_share(rank_times *t) {
    const double steps = (double)t->steps;
    if (t->steps == 0) return DRV_OK;
    const rank_time mine = {.compute = t->sum.compute / steps,
            .data = t->sum.data / steps,
            .save = t->sum.save / steps,
            .wait = t->sum.wait / steps,
            .sent = t->sum.sent / steps,
            .joules = t->sum.joules,
            .energy_steps = t->sum.energy_steps};
    t->of[0] = mine;
    t->sum.energy_steps = 0;
    if (comm_size(t->comm) == 1) return DRV_OK;
    DRV_TRY(comm_all_gather(comm_all_ranks(t->comm), &mine, sizeof mine, NULL, t->of));
    t->n = comm_size(t->comm);
    t->slowest = rank_times_slowest(t->of, t->n, &t->reason);
    memset(&t->sum, 0, sizeof t->sum);
    t->steps = 0;
    return DRV_OK;
}

drv_status rank_times_share_recent(rank_times *t, bool *there) {
    *there = false;
    if (comm_size(t->comm) == 1 || t->n_recent < RECENT_STEPS) return DRV_OK;
    t->n_recent = 0;
    DRV_TRY(comm_all_gather(comm_all_ranks(t->comm), t->recent, sizeof(float[RECENT_STEPS][4]),
            NULL, t->recent_of));
    *there = true;
    return DRV_OK;
}

const rank_time *rank_times_recent(rank_times *t, int i) {
    for (int rank = 0; rank < comm_size(t->comm); rank++) {
        const float *from = t->recent_of + ((int64_t)rank * RECENT_STEPS + i) * 4;
        t->step_of[rank] = (rank_time){.compute = (double)from[0],
                .data = (double)from[1],
                .save = (double)from[2],
                .wait = (double)from[3]};
    }
    return t->step_of;
}
