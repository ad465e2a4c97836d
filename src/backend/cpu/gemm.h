// Matrix products, cut into tiles for the team of threads, by our own kernels (kernels.h,
// docs/adr/0040-amx.md).
//
// bf16 mode defines what is rounded, not which instruction multiplies (design D6): bf16 operands are
// multiplied by AMX tile registers, by the bf16 dot product, or after widening to fp32 as they are
// packed. A rule on the processor decides, not a measurement, so that every run decides the same.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "base/status.h"
#include "kernels/tile_kernels.h"

typedef struct gemm gemm;                 // immutable after build
typedef struct gemm_machine gemm_machine; // which kernels multiply

typedef enum gemm_choice {
    GEMM_BY_RULE,      // or as DROVER_GEMM says, by one of the names below
    GEMM_BF16,         // "bf16": bf16 by dot product; needs CPU_AVX512_BF16
    GEMM_FP32,         // "fp32": bf16 widened
    GEMM_AMX,          // "amx": bf16 by tile registers; needs them, and CPU_AVX512
    GEMM_AMX_EMULATED, // "amx_emulated": the same bits in plain C, on any processor
    GEMM_PORTABLE,     // bits that every level has, bf16 widened; "fp32" agrees
} gemm_choice;

// The order of the sum over the inner dimension, if it is not a plain sum: equal reduction blocks,
// each summed over its segments in order, added in the tree of comm/join.h. Any complete subtree
// may be on another rank. Reduction block j has elements first[i] + j each[i] .. of segment i.
enum { MAX_SEGMENTS = 3 };
typedef struct gemm_tree {
    int n_blocks, n_segments; // 0: none
    int64_t first[MAX_SEGMENTS], each[MAX_SEGMENTS];
    int64_t last; // elements of the last reduction block of a single segment, if it is shorter;
                  // else 0
    // If not 0, a single segment has `near` elements, and its reduction blocks differ in length by
    // one at most: block j has elements near j / n_blocks to near (j + 1) / n_blocks, each[0] or
    // `last` of them.
    int64_t near;
    // The number of products, each with such a sum, that are added to c one after the other
    // (docs/adr/0026). The shape accumulates and has ta, not tb; each product takes the next k
    // rows. All are added to a tile of c while it is in the cache. 0: one.
    int64_t partial_sums;
} gemm_tree;

DRV_CHECKED drv_status gemm_machine_open(arena *a, gemm_choice choice, gemm_machine **out);
void gemm_machine_close(gemm_machine *m);
// Names the way in which bf16 products are multiplied: "AMX", "AMX in plain C", "bf16 dot product"
// or "fp32".
const char *gemm_arithmetic(const gemm_machine *m);
bool gemm_widens(const gemm_machine *m); // bf16 operands to fp32
// Returns the tile kernels for a level. The first call requests permission for AMX registers; NULL:
// there are none, or the system refuses them.
const tile_kernels *gemm_amx(cpu_level level);
// Returns the kernels for products and attention of operands of a type. Those of DT_F32 are also
// used for everything else, of any type.
const kernels *gemm_kernels(const gemm_machine *m, dtype dt);

// Building may allocate; running does not. The bits do not depend on the number of threads.
// tree NULL: none.
DRV_CHECKED drv_status gemm_new(arena *a, gemm_machine *machine, const gemm_shape *shape,
        const gemm_tree *tree, gemm **out);
// Returns the scratch that a product needs with `threads` threads in any arithmetic, for plans,
// which are made without an open back end.
int64_t gemm_workspace(const gemm_shape *s, const gemm_tree *tree, int threads);
int64_t gemm_bytes(const gemm *g); // the scratch of this product with the current team's threads
// Multiplies on the team that the product was built for. Aborts if the workspace has fewer bytes
// than gemm_bytes, since that would overwrite other tensors.
void gemm_run(const gemm *g, const void *a, const void *b, void *c, void *workspace, int64_t bytes);

// Measure FLOP/s, for bench, doctor and MFU. gemm_time gives the best rate of `tries` runs of a
// shape. gemm_peak gives the best rate of `tries` in the arithmetic of the type itself: of products
// of tile registers alone if AMX may multiply bf16, else of a few square products by our kernels
// (two sizes up to 4 tries, five sizes above). 0: this processor has no such arithmetic.
DRV_CHECKED drv_status gemm_time(arena *a, gemm_machine *m, const gemm_shape *shape, int tries,
        double *flops_per_s);
DRV_CHECKED drv_status gemm_peak(dtype dt, int tries, double *out);
