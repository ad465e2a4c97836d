// The same in plain C, for any processor: the bits that the instructions of AMX must give.
#include "kernels/levels/level_tiles.h"

LEVEL_TILES(tiles_amx_emulated, "AMX in plain C", NULL);
