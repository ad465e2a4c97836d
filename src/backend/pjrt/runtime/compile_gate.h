// Compiling side by side, within the memory of the host: a compiler takes a few hundred bytes for
// each byte of a program's text, so the step of a large model may be all that fits at a time.
#pragma once
#include <pthread.h>
#include <stdint.h>

// The gate of all compilations of this process. Thread-safe.
typedef struct compile_gate {
    pthread_mutex_t lock;
    pthread_cond_t left;
    int n_jobs; // at most so many at a time
    int n_running;
    int64_t max_bytes, bytes; // of those that run
} compile_gate;

// n_jobs 0: as many as there are cores. max_bytes 0: three quarters of what this process can still
// have.
void compile_gate_open(compile_gate *g, int n_jobs, int64_t max_bytes);
void compile_gate_close(compile_gate *g);

// Returns the most memory that compiling so much text takes, in bytes: 330 for each byte of text on
// the CPU plugin (0.6 and 2.4 MB of text), fewer on CUDA's, and what every compilation needs.
int64_t compile_bytes(int64_t text_bytes);
// Waits until there is room. The only one that runs always has it.
void compile_gate_enter(compile_gate *g, int64_t bytes);
void compile_gate_leave(compile_gate *g, int64_t bytes);

// Calls job(ctx, i) for each i in [0, n) on up to g->n_jobs threads, the caller's among them;
// returns when all have been. Jobs go through the gate themselves.
void compile_side_by_side(const compile_gate *g, int n, void (*job)(void *ctx, int i), void *ctx);
