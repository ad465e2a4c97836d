// Matrix products cut in fixed tiles, each one single-threaded oneDNN call from our team (design
// D5): the tiling depends on the shape alone, so the bits do not depend on the number of threads.
//
// bf16 products are multiplied with the bf16 dot product (or AMX) where that is the faster
// arithmetic, else tiles are widened to fp32 (design D6). The choice is a rule on the processor,
// not a measurement, so that it is the same in every run.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "base/status.h"

typedef struct gemm gemm;                 // immutable after build
typedef struct gemm_machine gemm_machine; // oneDNN engine, per-thread streams and scratch

typedef struct gemm_shape {
    int64_t m, n, k;
    bool ta, tb;           // a is [k,m], b is [n,k]
    int64_t lda, ldb, ldc; // elements between rows as stored
    dtype in, out;
    bool accumulate; // c += a b; out must be the accumulation type
} gemm_shape;

DRV_CHECKED drv_status gemm_machine_open(arena *a, gemm_machine **out);
void gemm_machine_close(gemm_machine *m);
bool gemm_uses_bf16(const gemm_machine *m);

// Building may allocate; running does not.
DRV_CHECKED drv_status gemm_new(arena *a, gemm_machine *m, const gemm_shape *s, gemm **out);
void gemm_run(const gemm *g, const void *a, const void *b, void *c);

// Measurements, for bench, doctor and MFU. gemm_time: best rate of `tries` runs of a shape, FLOP/s.
// gemm_peak: best of a few square products of a type (one size up to 4 tries, four
// sizes above), in the arithmetic of the type itself.
DRV_CHECKED drv_status gemm_time(
        arena *a, gemm_machine *m, const gemm_shape *s, int tries, double *flops_per_s);
DRV_CHECKED drv_status gemm_peak(dtype dt, int tries, double *flops_per_s);
