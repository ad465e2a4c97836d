// A function that runs on another thread, for input and output that would keep the cores waiting.
#pragma once
#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct task {
    pthread_t thread;
    drv_status (*run)(void *ctx);
    void *ctx;
    bool running;
    drv_saved ended;
} task;

// Starts run(ctx) on another thread or, if the system provides none, runs it before it returns. *t
// is zero at first, and must stay where it is until the task has ended.
void task_start(task *t, drv_status (*run)(void *ctx), void *ctx);
// Waits for up to at_most_s seconds, and returns whether the task has ended.
bool task_ended(task *t, double at_most_s);
// Waits for the task and returns its status, with its message; DRV_OK if none was started.
DRV_CHECKED drv_status task_wait(task *t);

// Starts a thread that blocks all signals, so that they reach other threads. DRV_E_DEVICE: the
// system provides no more threads.
DRV_CHECKED drv_status thread_start(pthread_t *out, void *(*fn)(void *ctx), void *ctx);
// Makes a condition variable whose timed waits end by CLOCK_MONOTONIC.
void cond_init_monotonic(pthread_cond_t *out);
