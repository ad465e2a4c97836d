// Products of bf16, and attention, by the tile registers of AMX (levels/tiles.h, docs/adr/0040): by
// its instructions, and in the plain C that defines what these do.
#pragma once
#include "kernels/kernels.h"

typedef struct tile_kernels {
    const char *name; // "AMX"
    // Multiplies in the place of kernels.gemm, with the same scratch; sums are in another order.
    // The thread has no tile registers but while it runs.
    void (*gemm)(const gemm_shape *shape, const void *a, const void *b, void *c, void *scratch);
    // In the place of those of kernels, of bf16 alone, with the same scratch. The largest score is
    // a whole power of 2 as exp takes it; P and dS are rounded with ties away from 0.
    void (*attention)(const attention_args *args, int64_t unit, void *scratch);
    void (*attention_grad)(const attention_args *args, int64_t unit, void *scratch);
    void (*attention_grad_sum)(const attention_args *args, int64_t unit);
    // 4 n products of registers, TILE_FLOPS each, and nothing else; NULL: there is no point in it.
    void (*spin)(int64_t n);
} tile_kernels;
enum { TILE_FLOPS = 2 * 16 * 16 * 32 };
extern const tile_kernels tiles_amx, tiles_amx_emulated;

// Returns the kernels by the instructions; a build for another processor has the plain C alone.
const tile_kernels *tiles_by_instructions(void);
