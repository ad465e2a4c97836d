// Runs one rank's part of a schedule. Each direction has two receive buffers (one for the current
// task, one for the next task that receives) and one send buffer.
#include "programs/pipeline_run.h"

#include "base/clock.h"

typedef enum direction { ACTIVATIONS, GRADIENTS, N_DIRECTIONS } direction;
enum { RECEIVED = 2, BUFFERS = N_DIRECTIONS * (RECEIVED + 1) };

typedef struct running {
    pipeline_link *link;
    const pipeline_schedule *schedule;
    const pipeline_actions *actions;
    comm_transfer received[N_DIRECTIONS][RECEIVED], sent[N_DIRECTIONS];
    int n_posted[N_DIRECTIONS], n_taken[N_DIRECTIONS];
    bool sending[N_DIRECTIONS];
    int next;          // the first task whose receive is not posted
    int round;         // so many are over
    drv_saved stopped; // status DRV_OK: it is not
} running;

int64_t pipeline_link_bytes(int64_t message_bytes) {
    return BUFFERS * message_bytes;
}

pipeline_link *pipeline_link_new(arena *a, comm *c, const mesh *m, int64_t message_bytes) {
    const int n = m->size[AXIS_PIPELINE];
    int *ranks = ARENA_ARRAY(a, int, n);
    comm_group *all = comm_axes(c, m, 1u << AXIS_PIPELINE);
    pipeline_link *link = ARENA_NEW(a, pipeline_link);
    for (int i = 0; i < n; i++)
        ranks[i] = group_rank(all, i);
    *link = (pipeline_link){.forward = comm_ranks(c, "pipeline forward", ranks, n),
            .backward = comm_ranks(c, "pipeline backward", ranks, n),
            .place = group_place(all),
            .ranks = n,
            .bytes = message_bytes,
            .memory = arena_alloc(a, (size_t)pipeline_link_bytes(message_bytes))};
    return link;
}

static direction direction_of(const pipeline_task *item) {
    return item->work == WORK_FORWARD ? ACTIVATIONS : GRADIENTS;
}

static comm_group *group_of(const running *r, direction d) {
    return d == ACTIVATIONS ? r->link->forward : r->link->backward;
}

// Activations go to the next rank, gradients to the one before.
static int neighbour(const running *r, direction d, bool sends) {
    const int n = r->link->ranks, step = (d == ACTIVATIONS) == sends ? 1 : n - 1;
    return (r->link->place + step) % n;
}

// buffer RECEIVED is the one to send from.
static char *buffer_of(const running *r, direction d, int buffer) {
    return r->link->memory + ((int)d * (RECEIVED + 1) + buffer) * r->link->bytes;
}

// Posts receives up to the task number `last`.
static void post(running *r, int last) {
    const pipeline_link *link = r->link;
    for (; r->next <= last && r->next < r->schedule->n_tasks; r->next++) {
        const pipeline_task *item = &r->schedule->order[link->place][r->next];
        if (!pipeline_receives(&r->schedule->shape, link->place, item)) continue;
        const direction d = direction_of(item);
        const int buffer = r->n_posted[d]++ % RECEIVED;
        comm_receive(group_of(r, d), neighbour(r, d, false), buffer_of(r, d, buffer), link->bytes,
                &r->received[d][buffer]);
    }
}

static drv_status wait_for(running *r, direction d, const char *what, comm_transfer *t) {
    const double begin = clock_s();
    DRV_TRY(comm_wait(group_of(r, d), what, t, 1));
    r->link->waited_s += clock_s() - begin;
    return DRV_OK;
}

static bool is_stopped(const running *r) {
    return r->stopped.status != DRV_OK;
}

static drv_status take(running *r, const pipeline_task *item) {
    const direction d = direction_of(item);
    const char *message = NULL;
    if (pipeline_receives(&r->schedule->shape, r->link->place, item)) {
        const int buffer = r->n_taken[d]++ % RECEIVED;
        DRV_TRY(wait_for(r, d, "receive", &r->received[d][buffer]));
        message = buffer_of(r, d, buffer);
    }
    return is_stopped(r) ? DRV_OK : r->actions->take(r->actions->ctx, item, message);
}

static drv_status finish_send(running *r, direction d) {
    if (!r->sending[d]) return DRV_OK;
    r->sending[d] = false;
    return wait_for(r, d, "send", &r->sent[d]);
}

static drv_status give(running *r, const pipeline_task *item) {
    const direction d = direction_of(item);
    char *message = buffer_of(r, d, RECEIVED);
    const int64_t bytes = is_stopped(r) ? 0 : r->link->bytes;
    if (!pipeline_sends(&r->schedule->shape, r->link->place, item)) return DRV_OK;
    DRV_TRY(finish_send(r, d));
    if (bytes) DRV_TRY(r->actions->give(r->actions->ctx, item, message));
    comm_send(group_of(r, d), neighbour(r, d, true), message, bytes, &r->sent[d]);
    r->sending[d] = true;
    return DRV_OK;
}

// Ends all rounds before `round`. After a stop the loop over the tasks continues, because messages
// that are in flight must be received.
static drv_status end_rounds(running *r, int round) {
    for (; r->actions->after_round && r->round + 1 < round && !is_stopped(r); r->round++) {
        const drv_status status = r->actions->after_round(r->actions->ctx);
        if (status == DRV_STOPPED)
            drv_save(status, &r->stopped);
        else
            DRV_TRY(status);
    }
    return DRV_OK;
}

static drv_status run_tasks(running *r) {
    for (int i = 0; i < r->schedule->n_tasks; i++) {
        const pipeline_task *item = &r->schedule->order[r->link->place][i];
        post(r, i + 1);
        DRV_TRY(end_rounds(r, r->actions->round ? r->actions->round[i] : 0));
        DRV_TRY(take(r, item));
        if (!is_stopped(r)) DRV_TRY(r->actions->compute(r->actions->ctx, item));
        DRV_TRY(give(r, item));
    }
    DRV_TRY(end_rounds(r, r->actions->n_rounds));
    for (direction d = 0; d < N_DIRECTIONS; d++)
        DRV_TRY(finish_send(r, d));
    return drv_restore(&r->stopped);
}

// Nothing may write to the buffers any more.
static void give_up(running *r) {
    for (direction d = 0; d < N_DIRECTIONS; d++) {
        for (; r->n_taken[d] < r->n_posted[d]; r->n_taken[d]++)
            comm_cancel(group_of(r, d), &r->received[d][r->n_taken[d] % RECEIVED], 1);
        if (r->sending[d]) comm_cancel(group_of(r, d), &r->sent[d], 1);
    }
}

drv_status pipeline_run(pipeline_link *link, const pipeline_schedule *schedule,
        const pipeline_actions *actions) {
    running r = {.link = link, .schedule = schedule, .actions = actions};
    DRV_ASSERT(schedule->shape.ranks == link->ranks, "a schedule of %d ranks on %d",
            schedule->shape.ranks, link->ranks);
    const drv_status status = run_tasks(&r);
    if (status != DRV_OK && status != DRV_STOPPED) give_up(&r);
    return status;
}
