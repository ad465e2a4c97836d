// Limits parallel compilation to the memory of the host: a compiler needs a few hundred bytes for
// each byte of a program's text, so only one step of a large model may fit at a time.
#pragma once
#include <pthread.h>
#include <stdint.h>

// The gate of all compilations of this process. Thread-safe.
typedef struct compile_gate {
    pthread_mutex_t lock;
    pthread_cond_t left;
    int n_jobs; // the largest number at a time
    int n_running;
    int64_t max_bytes, bytes; // of those that run
} compile_gate;

// n_jobs 0: as many as there are cores. max_bytes 0: three quarters of what this process can still
// have.
void compile_gate_open(compile_gate *g, int n_jobs, int64_t max_bytes);
void compile_gate_close(compile_gate *g);

// Returns an upper bound of the memory that compiling a text needs: 64 MiB, and 400 bytes for each
// byte of text. With the CPU plugin and 0.6 and 2.4 MB of text 330 were measured; CUDA's needs less.
int64_t compile_bytes(int64_t text_bytes);
// Waits until the memory suffices. A compilation never waits if no other is running.
void compile_gate_enter(compile_gate *g, int64_t bytes);
void compile_gate_leave(compile_gate *g, int64_t bytes);

// Calls job(ctx, i) for each i in [0, n) on up to g->n_jobs threads, the caller's among them;
// returns after all calls. Jobs have to enter the gate themselves.
void compile_side_by_side(const compile_gate *g, int n, void (*job)(void *ctx, int i), void *ctx);
