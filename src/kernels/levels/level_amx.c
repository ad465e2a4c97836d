// Products of bf16 and attention by the tile registers of AMX, compiled with its instructions, and
// a loop that measures their peak.
#include "kernels/levels/level_tiles.h"

#if !defined __AMX_BF16__ && !defined __AMXBF16__
#error "compiled without the instructions of AMX"
#endif

// Nothing but products of registers, each sum waiting for three others.
static void spin(int64_t n) {
    tiles_begin();
    for (int64_t i = 0; i < n; i++) {
        tile_dot(0, 0);
        tile_dot(0, 1);
        tile_dot(1, 0);
        tile_dot(1, 1);
    }
    tiles_end();
}

LEVEL_TILES(tiles_amx, "AMX", spin);
