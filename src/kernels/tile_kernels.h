// Products and attention of bf16 by the tile registers of AMX (levels/tiles.h, docs/adr/0040), with
// AMX instructions or with an emulation in plain C that defines them.
#pragma once
#include "kernels/kernels.h"

typedef struct tile_kernels {
    const char *name; // "AMX"
    // Replaces kernels.gemm, with the same scratch and another order of sums. The thread uses tile
    // registers only during the call.
    void (*gemm)(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch);
    // Replace those of kernels for bf16, with the same scratch. The largest score is rounded up so
    // that its exponential is a power of 2; P and dS are rounded with ties away from 0.
    void (*attention)(const attention_args *args, int64_t unit, void *scratch);
    void (*attention_grad)(const attention_args *args, int64_t unit, void *scratch);
    void (*attention_grad_sum)(const attention_args *args, int64_t unit);
    // Runs 4 n tile products of TILE_FLOPS each, to measure the peak; NULL: not available.
    void (*spin)(int64_t n);
} tile_kernels;
enum { TILE_FLOPS = 2 * 16 * 16 * 32 };
extern const tile_kernels tiles_amx, tiles_amx_emulated;

// Returns the kernels with AMX instructions, or the emulation in builds for other processors.
const tile_kernels *tiles_by_instructions(void);
