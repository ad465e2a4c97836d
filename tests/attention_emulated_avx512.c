// Attention by tiles in plain C with vectors of AVX-512: between the plain C that defines the bits
// and the instructions, so that a test tells which of the two differs.
#include "kernels/levels/level_tiles.h"

LEVEL_TILES(tiles_emulated_avx512, "AMX in plain C, vectors of AVX-512", NULL);
