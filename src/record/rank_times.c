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
    rank_time_add(&t->sum, step, 1);
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

void rank_time_add(rank_time *to, const rank_time *of, double by) {
    to->compute += of->compute / by;
    to->data += of->data / by;
    to->save += of->save / by;
    to->wait += of->wait / by;
    to->sent += of->sent / by;
}

const char *rank_time_excess(const rank_time *mine, const rank_time *others) {
    const double compute = mine->compute - others->compute, data = mine->data - others->data,
                 save = mine->save - others->save;
    return save > compute && save > data ? "save" : data > compute ? "data" : "compute";
}

int rank_times_slowest(const rank_time *of, int n, const char **reason) {
    int slowest = 0;
    for (int i = 1; i < n; i++)
        if (rank_time_own(&of[i]) > rank_time_own(&of[slowest])) slowest = i;
    const rank_time *most = &of[slowest];
    rank_time others = {0};
    for (int i = 0; i < n; i++)
        if (i != slowest) rank_time_add(&others, &of[i], n - 1);
    const double own = rank_time_own(most);
    const bool stands_out = own - rank_time_own(&others) > STANDS_OUT * (own + most->wait);
    *reason = rank_time_excess(most, &others);
    if (!stands_out) *reason = most->wait > own ? "wait" : "compute";
    return slowest;
}

drv_status rank_times_share(rank_times *t) {
    if (t->steps == 0) return DRV_OK;
    rank_time mine = {.joules = t->sum.joules, .energy_steps = t->sum.energy_steps};
    rank_time_add(&mine, &t->sum, (double)t->steps);
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
