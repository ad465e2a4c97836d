// The seconds of all ranks' steps, and which rank is the slowest.
#include "train/rank_times.h"

#include <string.h>

// Less than this share of a step is noise: nobody is waited for.
#define STANDS_OUT 0.05

rank_times rank_times_new(arena *a, comm *c) {
    return (rank_times){.comm = c, .of = ARENA_ARRAY(a, rank_time, comm_size(c)), .reason = ""};
}

void rank_times_add(rank_times *t, const rank_time *step) {
    t->sum.compute += step->compute;
    t->sum.data += step->data;
    t->sum.save += step->save;
    t->sum.wait += step->wait;
    t->sum.sent += step->sent;
    t->steps++;
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
    if (comm_size(t->comm) == 1 || t->steps == 0) return DRV_OK;
    const rank_time mine = {t->sum.compute / steps, t->sum.data / steps, t->sum.save / steps,
            t->sum.wait / steps, t->sum.sent / steps};
    DRV_TRY(comm_all_gather(comm_world(t->comm), &mine, sizeof mine, NULL, t->of));
    t->n = comm_size(t->comm);
    t->slowest = rank_times_slowest(t->of, t->n, &t->reason);
    memset(&t->sum, 0, sizeof t->sum);
    t->steps = 0;
    return DRV_OK;
}
