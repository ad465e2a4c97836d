// Ranks that are threads of one process. Messages meet in the receiver's box: the second of sender
// and receiver copies directly from the sender's buffer to the receiver's.
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "comm/comm_internal.h"

typedef struct queue {
    comm_transfer *first, **last;
} queue;

typedef struct box { // of a rank
    queue sent, awaited;
    pthread_cond_t changed; // for its owner
} box;

typedef struct hub {
    pthread_mutex_t lock; // of all boxes; not held while bytes are copied
    int n;
    box *boxes;
    struct present {
        comm *c;          // NULL: not open
        rank_status last; // when it closed
    } * ranks;
    comm_failure failure;
} hub;

static void push(queue *q, comm_transfer *t) {
    t->next = NULL;
    *q->last = t;
    q->last = &t->next;
}

static void take_out(queue *q, comm_transfer **link) {
    comm_transfer *t = *link;
    *link = t->next;
    if (q->last == &t->next) q->last = link;
}

static int sender_of(const comm_transfer *t) {
    return t->sends ? t->owner->rank : t->peer;
}

// Finds the other half of a message in a queue of its receiver; NULL: it is not there yet.
static comm_transfer **find(queue *q, const comm_transfer *half) {
    for (comm_transfer **link = &q->first; *link; link = &(*link)->next)
        if (sender_of(*link) == sender_of(half) && (*link)->tag == half->tag) return link;
    return NULL;
}

static void start(comm *self, comm_transfer *transfer) {
    hub *shared = self->state;
    box *receiver = &shared->boxes[transfer->sends ? transfer->peer : self->rank];
    queue *mine = transfer->sends ? &receiver->sent : &receiver->awaited,
          *other = transfer->sends ? &receiver->awaited : &receiver->sent;
    pthread_mutex_lock(&shared->lock);
    comm_transfer **found = find(other, transfer);
    if (!found) {
        push(mine, transfer);
        pthread_mutex_unlock(&shared->lock);
        return;
    }
    comm_transfer *match = *found;
    take_out(other, found);
    match->moved = 1; // belongs to this thread until done
    pthread_cond_t *changed =
            &shared->boxes[match->owner->rank].changed; // duplicates wait there, too
    pthread_mutex_unlock(&shared->lock);
    const comm_transfer *from = transfer->sends ? transfer : match,
                        *to = transfer->sends ? match : transfer;
    DRV_ASSERT(from->bytes == to->bytes || from->bytes == 0,
            "rank %d and rank %d: %lld bytes meet %lld", self->rank, transfer->peer,
            (long long)transfer->bytes, (long long)match->bytes);
    if (from->bytes) memcpy(to->p, from->p, (size_t)from->bytes);
    pthread_mutex_lock(&shared->lock);
    const bool last = !match->left || --*match->left == 0; // of all that its owner waits for
    transfer->done = match->done = true;                   // from here on the match may be gone
    pthread_mutex_unlock(&shared->lock);
    if (last) pthread_cond_broadcast(changed); // after unlocking, so that the woken thread gets it
}

// Counts the pending messages of the list and makes them count down `left`.
static int count_left(comm_transfer *list, int n, int *left) {
    int found = 0;
    for (int i = 0; i < n; i++)
        if (!list[i].done) {
            list[i].left = left;
            found++;
        }
    return found;
}

static drv_status advance(comm *c, comm_transfer *list, int n, bool wait, bool *done) {
    hub *h = c->state;
    pthread_mutex_lock(&h->lock);
    int left = count_left(list, n, &left);
    while (left && wait && atomic_load(&h->failure.kind) == FAIL_NONE)
        pthread_cond_wait(&h->boxes[c->rank].changed, &h->lock);
    count_left(list, n, NULL);
    *done = left == 0;
    pthread_mutex_unlock(&h->lock);
    return DRV_OK;
}

static void remove_from(queue *q, const comm_transfer *t) {
    for (comm_transfer **link = &q->first; *link; link = &(*link)->next)
        if (*link == t) {
            take_out(q, link);
            return;
        }
}

static void cancel(comm *c, comm_transfer *list, int n) {
    hub *h = c->state;
    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < n; i++) {
        comm_transfer *t = &list[i];
        box *receiver = &h->boxes[t->sends ? t->peer : c->rank];
        while (t->moved && !t->done) // another thread is copying
            pthread_cond_wait(&h->boxes[c->rank].changed, &h->lock);
        if (!t->done) remove_from(t->sends ? &receiver->sent : &receiver->awaited, t);
    }
    pthread_mutex_unlock(&h->lock);
}

static void wake_all(hub *h) {
    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < h->n; i++)
        pthread_cond_broadcast(&h->boxes[i].changed);
    pthread_mutex_unlock(&h->lock);
}

static void wake(comm *c) {
    wake_all(c->state);
}

static void leave(comm *c, bool failed DRV_UNUSED) {
    hub *h = c->state;
    const rank_status last = comm_status_now(c);
    pthread_mutex_lock(&h->lock);
    h->ranks[c->rank] = (struct present){.last = last};
    pthread_mutex_unlock(&h->lock);
}

static bool look(const comm *c, int rank, rank_status *out) {
    hub *h = c->state;
    pthread_mutex_lock(&h->lock);
    comm *other = h->ranks[rank].c;
    *out = other ? comm_status_now(other) : h->ranks[rank].last;
    pthread_mutex_unlock(&h->lock);
    return other != NULL;
}

static const comm_transport transport = {.name = "threads",
        .start = start,
        .advance = advance,
        .cancel = cancel,
        .wake = wake,
        .close = leave,
        .look = look};

// --- running
typedef struct worker {
    hub *hub;
    const comm_opts *opts;
    int rank, n_threads;
    drv_status (*fn)(comm *c, void *ctx);
    void *ctx;
    pthread_t thread;
    drv_saved ended;
} worker;

static void *run(void *arg) {
    worker *w = arg;
    arena *a = arena_new("rank");
    team *t = team_new(w->n_threads);
    team_use(t);
    comm *c = comm_new(a, &transport, w->hub, w->rank, w->hub->n, w->opts, &w->hub->failure);
    pthread_mutex_lock(&w->hub->lock);
    w->hub->ranks[w->rank].c = c;
    pthread_mutex_unlock(&w->hub->lock);
    const drv_status met = comm_gather_info(c);
    drv_save(met == DRV_OK ? w->fn(c, w->ctx) : met, &w->ended);
    if (w->ended.status != DRV_OK) comm_abort(c, w->ended.status);
    comm_close(c);
    team_use(NULL);
    team_free(t);
    arena_free(a);
    return NULL;
}

static drv_status run_all(worker *w, int n) {
    int n_started = 0;
    while (n_started < n && pthread_create(&w[n_started].thread, NULL, run, &w[n_started]) == 0)
        n_started++;
    if (n_started < n) {
        failure_set(&w->hub->failure, FAIL_DIED, n_started, DRV_E_PEER,
                "a rank's thread could not be started");
        wake_all(w->hub);
    }
    for (int i = 0; i < n_started; i++)
        pthread_join(w[i].thread, NULL);
    if (n_started < n) return drv_fail(DRV_E_DEVICE, "could not start %d threads as ranks", n);
    const comm_failure *f = &w->hub->failure;
    if (f->kind == FAIL_NONE) return DRV_OK;
    return drv_restore(&w[f->rank].ended);
}

drv_status comm_run_threads(int n_ranks, int n_threads, const comm_opts *opts,
        drv_status (*fn)(comm *self, void *ctx), void *ctx) {
    hub shared = {.n = n_ranks,
            .boxes = mem_zeroed(sizeof(box) * (size_t)n_ranks),
            .ranks = mem_zeroed(sizeof(struct present) * (size_t)n_ranks)};
    worker *workers = mem_zeroed(sizeof *workers * (size_t)n_ranks);
    pthread_mutex_init(&shared.lock, NULL);
    pthread_mutex_init(&shared.failure.lock, NULL);
    for (int i = 0; i < n_ranks; i++) {
        box *b = &shared.boxes[i];
        b->sent.last = &b->sent.first;
        b->awaited.last = &b->awaited.first;
        pthread_cond_init(&b->changed, NULL);
        workers[i] = (worker){.hub = &shared,
                .opts = opts,
                .rank = i,
                .n_threads = n_threads,
                .fn = fn,
                .ctx = ctx};
    }
    drv_status status = run_all(workers, n_ranks);
    for (int i = 0; i < n_ranks; i++)
        pthread_cond_destroy(&shared.boxes[i].changed);
    pthread_mutex_destroy(&shared.lock);
    pthread_mutex_destroy(&shared.failure.lock);
    free(shared.boxes);
    free(shared.ranks);
    free(workers);
    return status;
}
