// Where a thread of a test waits until another one lets it on: what must happen first has happened.
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
} gate;
#define GATE_INIT                                                                                  \
    { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static inline void gate_open(gate *g) {
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

// False: it has not been opened in 20 s, since somebody waits who should not.
static inline bool gate_pass(gate *g) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&g->lock);
    while (!g->open && pthread_cond_timedwait(&g->changed, &g->lock, &until) == 0)
        continue;
    const bool open = g->open;
    pthread_mutex_unlock(&g->lock);
    return open;
}

static inline void pause_ms(int ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}
