// Asynchronous operations of a rank: a list that its own thread writes and another one works off.
#include "comm/comm_thread.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/task.h"
#include "comm/comm_internal.h"

typedef struct async_op {
    drv_status (*run)(const void *what);
    const void *what;
    const comm_group *over; // NULL: sends nothing
    int64_t bytes;
} async_op;

struct comm_thread {
    comm *of, *duplicate;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; // of all below
    pthread_cond_t changed;
    async_op *list; // handed over and not yet taken: from `next` to `n`
    int n, next, cap;
    int64_t n_handed, n_done;
    bool closing;
    drv_saved ended; // the first failure
};

comm_thread *comm_thread_open(comm *c) {
    comm_thread *q = mem_alloc(sizeof *q);
    *q = (comm_thread){.of = c, .duplicate = comm_duplicate(c)};
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    return q;
}

comm_group *comm_thread_group(comm_thread *q, comm_group *g) {
    if (g->async) return g->async;
    comm_group *async = comm_ranks(q->duplicate, g->name, g->ranks, g->n);
    async->run = g->run;
    async->of = g;
    return g->async = async;
}

// The next one; false: there will be none.
static bool take(comm_thread *q, async_op *out) {
    pthread_mutex_lock(&q->lock);
    while (q->next == q->n && !q->closing)
        pthread_cond_wait(&q->changed, &q->lock);
    const bool there = q->next < q->n;
    if (there) *out = q->list[q->next++];
    if (q->next == q->n) q->next = q->n = 0;
    pthread_mutex_unlock(&q->lock);
    return there;
}

// The bytes that it was told to send were counted already.
static void do_async_op(comm_thread *q, const async_op *one) {
    const int64_t before = one->over ? one->over->sent : 0;
    const drv_status status = q->ended.status == DRV_OK ? one->run(one->what) : DRV_OK;
    if (one->over && status == DRV_OK && q->ended.status == DRV_OK)
        DRV_ASSERT(one->over->sent - before == one->bytes,
                "an asynchronous operation over %s sent %lld bytes of %lld", one->over->name,
                (long long)(one->over->sent - before), (long long)one->bytes);
    pthread_mutex_lock(&q->lock);
    q->n_done++;
    if (status != DRV_OK && q->ended.status == DRV_OK) drv_save(status, &q->ended);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static void *work(void *arg) {
    comm_thread *q = arg;
    async_op one;
    team *alone = team_new(1); // the team of the process is at work for the steps
    team_use(alone);
    while (take(q, &one))
        do_async_op(q, &one);
    team_use(NULL);
    team_free(alone);
    return NULL;
}

int64_t comm_thread_start(comm_thread *q, drv_status (*run)(const void *async_op), const void *what,
        comm_group *g, int64_t bytes) {
    if (g) g->of->sent += bytes;
    if (!q->has_thread) q->has_thread = thread_start(&q->thread, work, q) == DRV_OK;
    if (!q->has_thread) { // none to be had: at once
        q->n_handed++;
        do_async_op(q, &(async_op){run, what, g, bytes});
        return q->n_handed;
    }
    pthread_mutex_lock(&q->lock);
    MEM_GROW(q->list, q->n, q->cap);
    q->list[q->n++] = (async_op){run, what, g, bytes};
    const int64_t number = ++q->n_handed;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return number;
}

static drv_status wait_for(comm_thread *q, int64_t number) {
    pthread_mutex_lock(&q->lock);
    while (q->n_done < number)
        pthread_cond_wait(&q->changed, &q->lock);
    const drv_status status = drv_restore(&q->ended);
    pthread_mutex_unlock(&q->lock);
    return status;
}

drv_status comm_thread_wait(comm_thread *q, int64_t number, comm_group *g, const char *what) {
    if (!g) return wait_for(q, number);
    const double begin = clock_s();
    comm_begin(g->of, what, 0);
    const drv_status status = wait_for(q, number);
    q->of->waited_s += clock_s() - begin;
    if (status == DRV_OK) comm_end(g->of);
    return status;
}

void comm_thread_close(comm_thread *q) {
    if (!q) return;
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    if (q->has_thread) pthread_join(q->thread, NULL);
    for (const comm_group *g = q->duplicate->groups; g; g = g->next)
        if (g->of) g->of->async = NULL;
    comm_duplicate_close(q->duplicate);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
    free(q->list);
    free(q);
}
