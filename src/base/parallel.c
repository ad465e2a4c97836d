#include "base/parallel.h"

#include <omp.h>
#include <sched.h>
#include <stdlib.h>

static int n_threads = 1;

void par_set_threads(int n) {
    if (n <= 0) {
        const char *env = getenv("OMP_NUM_THREADS");
        n = env ? (int)strtol(env, NULL, 10) : 0;
    }
    if (n <= 0) {
        cpu_set_t set;
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    }
    n_threads = n;
    omp_set_dynamic(0);
    omp_set_num_threads(1); // libraries we call run on the calling thread alone
}

int par_threads(void) {
    return n_threads;
}

void par_for(int64_t n, void (*fn)(void *arg, int64_t i, int thread), void *arg) {
    if (n_threads == 1 || n <= 1) {
        for (int64_t i = 0; i < n; i++)
            fn(arg, i, 0);
        return;
    }
    int team = n < n_threads ? (int)n : n_threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
    for (int64_t i = 0; i < n; i++)
        fn(arg, i, omp_get_thread_num());
}
