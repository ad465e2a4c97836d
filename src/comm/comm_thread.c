// A queue of operations: the rank's own thread appends to it, the communication thread runs them.
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
    async_op *list; // [next, n) are started and not yet taken
    int n, next, cap;
    int64_t n_handed, n_done;
    bool closing;
    drv_saved ended; // the first failure
};

comm_thread *comm_thread_open(comm *c) {
    comm_thread *self = mem_alloc(sizeof *self);
    *self = (comm_thread){.of = c, .duplicate = comm_duplicate(c)};
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    return self;
}

comm_group *comm_thread_group(comm_thread *self, comm_group *g) {
    if (g->async) return g->async;
    comm_group *async = comm_ranks(self->duplicate, g->name, g->ranks, g->n);
    async->run = g->run;
    async->of = g;
    return g->async = async;
}

// Takes the next operation; false: the queue is closed and empty.
static bool take(comm_thread *self, async_op *out) {
    pthread_mutex_lock(&self->lock);
    while (self->next == self->n && !self->closing)
        pthread_cond_wait(&self->changed, &self->lock);
    const bool there = self->next < self->n;
    if (there) *out = self->list[self->next++];
    if (self->next == self->n) self->next = self->n = 0;
    pthread_mutex_unlock(&self->lock);
    return there;
}

// The bytes were counted when the operation was started.
static void do_async_op(comm_thread *self, const async_op *one) {
    const int64_t before = one->over ? one->over->sent : 0;
    const drv_status status = self->ended.status == DRV_OK ? one->run(one->what) : DRV_OK;
    if (one->over && status == DRV_OK && self->ended.status == DRV_OK)
        DRV_ASSERT(one->over->sent - before == one->bytes,
                "an asynchronous operation over %s sent %lld bytes of %lld", one->over->name,
                (long long)(one->over->sent - before), (long long)one->bytes);
    pthread_mutex_lock(&self->lock);
    self->n_done++;
    if (status != DRV_OK && self->ended.status == DRV_OK) drv_save(status, &self->ended);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static void *work(void *arg) {
    comm_thread *self = arg;
    async_op one;
    team *alone = team_new(1); // the steps use the team of the process
    team_use(alone);
    while (take(self, &one))
        do_async_op(self, &one);
    team_use(NULL);
    team_free(alone);
    return NULL;
}

int64_t comm_thread_start(comm_thread *self, drv_status (*run)(const void *async_op),
        const void *what, comm_group *g, int64_t bytes) {
    if (g) g->of->sent += bytes;
    if (!self->has_thread) self->has_thread = thread_start(&self->thread, work, self) == DRV_OK;
    if (!self->has_thread) { // it could not be started: run the operation now
        self->n_handed++;
        do_async_op(self, &(async_op){run, what, g, bytes});
        return self->n_handed;
    }
    pthread_mutex_lock(&self->lock);
    MEM_GROW(self->list, self->n, self->cap);
    self->list[self->n++] = (async_op){run, what, g, bytes};
    const int64_t number = ++self->n_handed;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    return number;
}

static drv_status wait_for(comm_thread *self, int64_t number) {
    pthread_mutex_lock(&self->lock);
    while (self->n_done < number)
        pthread_cond_wait(&self->changed, &self->lock);
    const drv_status status = drv_restore(&self->ended);
    pthread_mutex_unlock(&self->lock);
    return status;
}

drv_status comm_thread_wait(comm_thread *self, int64_t number, comm_group *g, const char *what) {
    if (!g) return wait_for(self, number);
    const double begin = clock_s();
    comm_begin(g->of, what, 0);
    const drv_status status = wait_for(self, number);
    self->of->waited_s += clock_s() - begin;
    if (status == DRV_OK) comm_end(g->of);
    return status;
}

void comm_thread_close(comm_thread *self) {
    if (!self) return;
    pthread_mutex_lock(&self->lock);
    self->closing = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    if (self->has_thread) pthread_join(self->thread, NULL);
    for (const comm_group *g = self->duplicate->groups; g; g = g->next)
        if (g->of) g->of->async = NULL;
    comm_duplicate_close(self->duplicate);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->changed);
    free(self->list);
    free(self);
}
