// The ranks poll each other so rarely that it costs nothing, and act on a stop within a second.
#include "programs/stop_poll.h"

#include <math.h>

#include "base/clock.h"
#include "base/stop.h"

#define ASK_S 0.5

stop_poll stop_poll_new(comm *c, int64_t every) {
    return (stop_poll){.all_ranks = comm_all_ranks(c), .every = every, .began_s = clock_s()};
}

void stop_poll_begin(stop_poll *p) {
    p->n_done = 0;
    p->began_s = clock_s();
}

void stop_poll_pace(stop_poll *p, int64_t parts, double seconds) {
    const double every = (double)parts * ASK_S / fmax(seconds, 1e-6);
    p->every = every < 1 ? 1 : every < 0x1p40 ? (int64_t)every : (int64_t)1 << 40;
}

drv_status stop_poll_done(stop_poll *p, int64_t n, const char *doing) {
    p->n_done += n;
    if (group_size(p->all_ranks) == 1) DRV_TRY(stop_check(doing));
    if (p->n_done < p->every) return DRV_OK;
    double asked[2] = {stop_number(), clock_s() - p->began_s};
    DRV_TRY(comm_all_reduce(p->all_ranks, DT_F64, COMM_MAX, asked, 2, NULL));
    if (asked[0] > 0) stop_take_over((int)asked[0]);
    if (asked[0] > 0) return stop_check(doing);
    const int64_t most = 2 * p->n_done; // the first parts may be faster than those to come
    stop_poll_pace(p, p->n_done, asked[1]);
    if (p->every > most) p->every = most;
    stop_poll_begin(p);
    return DRV_OK;
}
