// Protects a watched run by a lock.
#include "watch/server/run_view.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define EVERY_S 1.0
#define SLICE_S 0.05 // that metrics.jsonl is read at a time

struct run_view {
    pthread_mutex_t lock;
    char *dir;
    watched_run *run;
    double read_s; // time of the last reading
    int64_t number;
};

run_view *run_view_open(const char *dir, double bubble) {
    run_view *self = mem_zeroed(sizeof *self);
    self->dir = strdup(dir);
    self->run = watched_run_open(self->dir, bubble);
    pthread_mutex_init(&self->lock, NULL);
    return self;
}

// Call with the lock held.
static void read_files(run_view *self) {
    watched_run_read(self->run, SLICE_S);
    self->read_s = clock_s();
    self->number++;
}

watched_run *run_view_take(run_view *self, int64_t *number) {
    pthread_mutex_lock(&self->lock);
    if (self->number == 0 || clock_s() >= self->read_s + EVERY_S) read_files(self);
    if (number) *number = self->number;
    return self->run;
}

void run_view_give(run_view *self) {
    pthread_mutex_unlock(&self->lock);
}

void run_view_refresh(run_view *self) {
    pthread_mutex_lock(&self->lock);
    self->read_s = -EVERY_S;
    pthread_mutex_unlock(&self->lock);
}

bool run_view_catch_up(run_view *self) {
    pthread_mutex_lock(&self->lock);
    if (self->number == 0 || self->run->read_bytes < self->run->metrics_bytes) read_files(self);
    const bool more = self->run->read_bytes < self->run->metrics_bytes;
    pthread_mutex_unlock(&self->lock);
    return more;
}

void run_view_close(run_view *self) {
    if (!self) return;
    watched_run_close(self->run);
    pthread_mutex_destroy(&self->lock);
    free(self->dir);
    free(self);
}
