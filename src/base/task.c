// One function on a thread of its own; its status and message reach the thread that waits.
#include "base/task.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static void *run(void *arg) {
    task *t = arg;
    drv_save(t->run(t->ctx), &t->ended);
    return NULL;
}

void task_start(task *t, drv_status (*fn)(void *ctx), void *ctx) {
    DRV_ASSERT(!t->running, "a task that runs already");
    t->run = fn;
    t->ctx = ctx;
    t->running = pthread_create(&t->thread, NULL, run, t) == 0;
    if (!t->running) run(t); // no thread could be started: runs here and now
}

bool task_ended(task *t, double at_most_s) {
    const struct timespec end = clock_after(at_most_s);
    if (!t->running) return true;
    t->running = pthread_timedjoin_np(t->thread, NULL, &end) != 0;
    return !t->running;
}

drv_status task_wait(task *t) {
    if (t->running) pthread_join(t->thread, NULL);
    t->running = false;
    const drv_status status = drv_restore(&t->ended);
    drv_save(DRV_OK, &t->ended);
    return status;
}

drv_status thread_start(pthread_t *out, void *(*fn)(void *ctx), void *ctx) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int bad = pthread_create(out, NULL, fn, ctx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return bad ? drv_fail(DRV_E_DEVICE, "could not start a thread: %s", strerror(bad)) : DRV_OK;
}

void cond_init_monotonic(pthread_cond_t *out) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(out, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
