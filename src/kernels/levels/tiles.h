// The AMX tile registers of a thread: eight registers of 16 rows of 64 bytes, and an instruction
// that multiplies two of them. Seven functions wrap them: tiles_amx.h implements these with AMX
// instructions, for files that are compiled with AMX; tiles_plain.h emulates them in plain C and
// defines their result, so that code that uses them is tested on any processor.
//
//     tiles_begin()            allocates all registers and sets them to 0
//     tiles_end()              releases them: a thread that keeps them lowers the others' clock
//     tile_zero(t)             register t = 0
//     tile_load(t, p, stride)  row i of register t = the 64 bytes at p + i stride
//     tile_load_once(t, p, stride)  the same, without keeping the data in the first-level cache
//     tile_store(t, p, stride) stores register t
//     tile_dot(i, j)           SUMS_TILE + 2 i + j += ROWS_TILE + i times COLUMNS_TILE + j; i, j <
//     2
//
// t, i and j must be constants where a function is inlined. Rows hold 16 floats of sums, or 16
// words, each of two bf16 (words.h, pair words): word w of row i of a, and word w of column j of b
// in row w. tile_dot adds to the sum of row i and column j (Intel SDM, volume 2, TDPBF16PS)
//
//     (even products, one after the other, from 0) + (odd ones likewise)
//
// with one rounding to nearest even for each product that is added, one for the sum of both, and
// one as that is added. Denormal numbers are taken as 0, and so is each result that is one.
#pragma once
#include <stdint.h>

#include "kernels/levels/inline.h"

enum {
    TILE_SIDE = 16,
    TILE_WORDS = TILE_SIDE * TILE_SIDE,
    TILE_GROUP = 2 * TILE_SIDE, // elements of the inner dimension that a tile_dot takes
    N_TILES = 8,
    SUMS_TILE = 0,
    ROWS_TILE = 4,
    COLUMNS_TILE = 6,
};

#if defined __AMX_BF16__ || defined __AMXBF16__ // as clang 14 says it
#include "kernels/levels/tiles_amx.h"
#else
#include "kernels/levels/tiles_plain.h"
#endif
