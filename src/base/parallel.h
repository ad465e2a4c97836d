// Teams of threads. A team runs one loop at a time: chunks are claimed in order by whoever is free,
// the caller included, and the loop ends when every chunk is done. A thread of the team that comes
// late (its core is busy with another program) finds no chunk left and holds nobody up; only a
// chunk that it has already begun is waited for. Waiting is a short spin, then sleep.
//
// A chunk must compute the same whichever thread runs it and whichever chunks ran before. Then
// results depend on how the work is cut, and on nothing else. Callers cut sums by shapes alone.
// Only what changes no sum may follow par_threads(): the tiles of gemm.c, because its kernels give
// each element of a product the same bits in any tile, and how many rows of attention run at once.
#pragma once
#include <stdint.h>

// Computes one chunk: `i` is in [0, n), `thread` in [0, threads of the team) and different for any
// two chunks that run at the same time in one loop.
typedef void par_fn(void *arg, int64_t i, int thread);

typedef struct team team; // thread-safe, but see team_for on loops that meet

// Makes a team of `n_threads`: the caller of team_for and n_threads - 1 of its own, started by the
// first loop that can use them. Where the system gives fewer threads, those that there are do all
// the work.
team *team_new(int n_threads);
void team_free(team *group); // no loop may be running; NULL is allowed

// Calls fn(arg, i, thread) for every i in [0, n), in any order, and returns when all calls have.
// Chunks are handed out from 0 upward: put the expensive ones first. A loop inside a chunk of the
// same team runs on the chunk's thread alone, under its number; so does, as thread 0, a loop that
// finds the team at work for another caller. What fn wrote is visible to the caller afterwards.
void team_for(team *group, int64_t n, par_fn *fn, void *arg);

// Each thread has a current team; several ranks in one process have one each. Threads start with
// the team of the process. team_use returns the team that was current, for putting it back; NULL
// is the team of the process.
team *team_use(team *group);

// Returns how many threads to use for `asked`: that number, or if it is 0, what DROVER_THREADS or
// OMP_NUM_THREADS says, or else all cores that this process may use: those of its affinity mask,
// and no more than a container's quota fills.
int par_threads_for(int asked);
// quota: in cores, rounded up; 0: none.
int par_threads_by_machine(int n_cores, double quota);

// Sizes the team of the process by par_threads_for(n); before, it is one thread. Not while a loop
// of that team is running.
void par_set_threads(int n);

// The same for the calling thread's current team.
int par_threads(void);
void par_for(int64_t n, par_fn *fn, void *arg);
