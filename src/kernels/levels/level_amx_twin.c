// The same products in plain C, for any processor: the bits that the instructions of AMX must give.
#include "kernels/levels/gemm_tiles.h"

const tile_kernels tiles_amx_twin = {.name = "AMX in plain C", .gemm = gemm_by_tiles};
