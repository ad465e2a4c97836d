// Teams of threads. A team runs one loop at a time: free threads, the caller included, claim chunks
// in order, and the loop ends when every chunk is done. A thread that wakes late because its core
// runs another program finds no chunk left and delays nobody; the loop waits only for chunks that
// have begun. Waiting threads spin briefly, then sleep.
//
// A chunk must compute the same whichever thread runs it and whichever chunks ran before. Then
// results depend on how the work is cut, and on nothing else. Callers cut sums by shapes alone.
// Only what changes no sum may follow par_threads(): the tiles of gemm.c, because its kernels give
// each element of a product the same bits in any tile, and how many rows of attention run at once.
#pragma once
#include <stdint.h>

// Computes chunk `i` of a loop over [0, n).
typedef void par_fn(void *arg, int64_t i);

typedef struct team team; // thread-safe, but see team_for on loops that meet

// Makes a team of `n_threads`: the caller of team_for and n_threads - 1 further ones, which the
// first loop that can use them starts. If the system provides fewer threads, these do all the work.
team *team_new(int n_threads);
void team_free(team *group); // no loop may be running; NULL is allowed

// Calls fn(arg, i) for every i in [0, n), in any order, and returns after all calls. Chunks are
// claimed from 0 upward, so put expensive ones first. A loop inside a chunk of the same team runs
// on the chunk's thread only, with its number. A loop that finds the team busy with another caller
// runs on the calling thread, as thread 0. Writes of fn are visible to the caller afterwards.
void team_for(team *group, int64_t n, par_fn *fn, void *arg);

// Returns the number of the thread that runs the calling chunk. It is in [0, threads of the team)
// and different for any two chunks that run at the same time in one loop. Outside of loops: 0.
int par_thread(void);

// Each thread has a current team, initially that of the process; ranks that share a process have
// one each. team_use sets it and returns the previous one; NULL is the team of the process.
team *team_use(team *group);

// Returns the number of threads for `asked`: that number or, if it is 0, DROVER_THREADS or
// OMP_NUM_THREADS, or else the cores in the process's affinity mask, or all cores if there are more
// than 1,024, limited by a container's quota.
int par_threads_for(int asked);
// Returns the smaller of n_cores and the quota, which is in cores and rounded up; 0: no quota.
int par_threads_by_machine(int n_cores, double quota);

// Sizes the team of the process by par_threads_for(n); before, it is one thread. Not while a loop
// of that team is running.
void par_set_threads(int n);

int par_threads(void);                          // threads of the calling thread's current team
void par_for(int64_t n, par_fn *fn, void *arg); // team_for with that team
