// What every back end offers (design D5). A back end owns the state of its local ranks (weights,
// gradients, optimizer, inputs, outputs, by name) and runs planned programs on it. Loops over ranks
// belong to the caller: everything takes a local rank.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"

typedef struct backend backend;
typedef struct executable executable; // belongs to its back end

typedef struct backend_vtable {
    const char *name;
    // Scratch that the planner has to set aside while a node runs.
    int64_t (*workspace)(backend *b, const node *n);
    // Lowers a planned graph; creates state that it names and that does not exist yet, zeroed.
    drv_status (*load)(backend *b, const plan *p, executable **out);
    // Allocates what loaded programs need at most; called by the first run at the latest.
    drv_status (*prepare)(backend *b);
    drv_status (*run)(backend *b, executable *e);
    // Part of a state tensor, as bytes. Only inputs have to be written before each run.
    drv_status (*write)(backend *b, int rank, const char *name, int64_t offset, int64_t bytes,
            const void *src);
    drv_status (*read)(backend *b, int rank, const char *name, int64_t offset, int64_t bytes,
            void *dst);
    int64_t (*held_bytes)(backend *b);            // of state and arenas
    double (*peak_flops)(backend *b);             // FLOP/s that MFU is measured against; 0: unknown
    void (*profile)(backend *b, double s[N_OPS]); // seconds by op since the last call; may be NULL
    void (*close)(backend *b);
} backend_vtable;

struct backend {
    const backend_vtable *v;
    int n_local_ranks;
};

// The calls of the vtable.
static inline drv_status backend_prepare(backend *b) {
    return b->v->prepare(b);
}
static inline drv_status backend_run(backend *b, executable *e) {
    return b->v->run(b, e);
}
static inline drv_status backend_write(backend *b, int rank, const char *name, int64_t offset,
        int64_t bytes, const void *src) {
    return b->v->write(b, rank, name, offset, bytes, src);
}
static inline drv_status backend_read(backend *b, int rank, const char *name, int64_t offset,
        int64_t bytes, void *dst) {
    return b->v->read(b, rank, name, offset, bytes, dst);
}
static inline int64_t backend_held_bytes(backend *b) {
    return b->v->held_bytes(b);
}
static inline void backend_profile(backend *b, double s[N_OPS]) {
    b->v->profile(b, s);
}
static inline double backend_peak_flops(backend *b) {
    return b->v->peak_flops(b);
}
static inline void backend_close(backend *b) {
    b->v->close(b);
}

// The embedded CPU back end. DROVER_CPU=ref|avx2|avx512|avx512_bf16 forces a level of kernels,
// DROVER_GEMM=bf16|fp32|onednn how products are multiplied (backend/cpu/gemm.h).
DRV_CHECKED drv_status backend_open_cpu(arena *a, backend **out);
// Plans and verifies, computes nothing, holds nothing.
DRV_CHECKED drv_status backend_open_null(arena *a, backend **out);

// By name: cpu, null.
DRV_CHECKED drv_status backend_open(arena *a, const char *name, backend **out);

// Plans a graph for a back end and loads it.
DRV_CHECKED drv_status backend_compile(arena *a, backend *b, graph *g, plan **p, executable **out);
