// Limits compilations by a semaphore that counts bytes, and runs them on a few threads.
#include "backend/pjrt/runtime/compile_gate.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/memory_limit.h"
#include "base/parallel.h"

void compile_gate_open(compile_gate *g, int n_jobs, int64_t max_bytes) {
    *g = (compile_gate){.n_jobs = n_jobs > 0 ? n_jobs : par_threads_for(0), .max_bytes = max_bytes};
    if (max_bytes <= 0) g->max_bytes = memory_limit_read("").free / 4 * 3;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->left, NULL);
}

void compile_gate_close(compile_gate *g) {
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->left);
}

int64_t compile_bytes(int64_t text_bytes) {
    enum { ALWAYS = 64 << 20, PER_BYTE = 400 };
    return ALWAYS + PER_BYTE * text_bytes;
}

void compile_gate_enter(compile_gate *g, int64_t bytes) {
    pthread_mutex_lock(&g->lock);
    while (g->n_running > 0 && (g->n_running >= g->n_jobs || bytes > g->max_bytes - g->bytes))
        pthread_cond_wait(&g->left, &g->lock);
    g->n_running++;
    g->bytes += bytes;
    pthread_mutex_unlock(&g->lock);
}

void compile_gate_leave(compile_gate *g, int64_t bytes) {
    pthread_mutex_lock(&g->lock);
    g->n_running--;
    g->bytes -= bytes;
    pthread_cond_broadcast(&g->left);
    pthread_mutex_unlock(&g->lock);
}

typedef struct job_list {
    void (*job)(void *ctx, int i);
    void *ctx;
    int n;
    atomic_int next;
} job_list;

static void *work(void *arg) {
    job_list *list = arg;
    int i;
    while ((i = atomic_fetch_add(&list->next, 1)) < list->n)
        list->job(list->ctx, i);
    return NULL;
}

void compile_side_by_side(const compile_gate *g, int n, void (*job)(void *ctx, int i), void *ctx) {
    enum { MAX_THREADS = 64, STACK_BYTES = 64 << 20 }; // compilers recurse
    job_list list = {job, ctx, n, 0};
    pthread_t threads[MAX_THREADS];
    pthread_attr_t attributes;
    int n_threads = 0;
    pthread_attr_init(&attributes);
    const bool sized = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0;
    // If the system gives no more threads, the existing ones do the work.
    while (n_threads < MAX_THREADS && n_threads + 1 < g->n_jobs && n_threads + 1 < n &&
            pthread_create(&threads[n_threads], sized ? &attributes : NULL, work, &list) == 0)
        n_threads++;
    pthread_attr_destroy(&attributes);
    work(&list);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
}
