// One team of threads. Work is cut in chunks whose number and size never depend on the number of
// threads, so results do not either.
#pragma once
#include <stdint.h>

// 0 = what OMP_NUM_THREADS says, else all cores this process may use. Call once, early.
void par_set_threads(int n);
int par_threads(void);

// Calls fn(arg, i, thread) for every i in [0, n), in any order; thread is in [0, par_threads()).
// Chunks are handed out from 0 upward: put the expensive ones first.
void par_for(int64_t n, void (*fn)(void *arg, int64_t i, int thread), void *arg);
