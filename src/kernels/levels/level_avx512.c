// The level AVX-512 F, BW, DQ, VL: the kernels of this folder, compiled with these instructions, as
// one table.
#include "kernels/levels/level_float.h"
#include "kernels/levels/level_table.h"

LEVEL_TABLE(avx512);
