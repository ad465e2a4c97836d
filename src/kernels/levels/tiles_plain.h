// The tile registers in plain C, which define the result of the instructions. Included by tiles.h,
// which describes the functions. The sign and payload of a NaN are not defined.
#pragma once
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/status.h"

typedef struct tile_registers {
    uint32_t row[N_TILES][TILE_SIDE][TILE_SIDE];
    bool there;
} tile_registers;
static _Thread_local tile_registers tiles;

static inline void tiles_begin(void) {
    memset(&tiles, 0, sizeof tiles);
    tiles.there = true;
}

static inline void tiles_end(void) {
    tiles.there = false;
}

static inline void tile_zero(int t) {
    DRV_ASSERT(tiles.there, "tile registers are used before tiles_begin or after tiles_end");
    memset(tiles.row[t], 0, sizeof tiles.row[t]);
}

static inline void tile_load(int t, const void *p, int64_t stride) {
    DRV_ASSERT(tiles.there, "tile registers are used before tiles_begin or after tiles_end");
    for (int i = 0; i < TILE_SIDE; i++)
        memcpy(tiles.row[t][i], (const char *)p + i * stride, sizeof tiles.row[t][i]);
}

static inline void tile_load_once(int t, const void *p, int64_t stride) {
    tile_load(t, p, stride);
}

static inline void tile_store(int t, void *p, int64_t stride) {
    DRV_ASSERT(tiles.there, "tile registers are used before tiles_begin or after tiles_end");
    for (int i = 0; i < TILE_SIDE; i++)
        memcpy((char *)p + i * stride, tiles.row[t][i], sizeof tiles.row[t][i]);
}

// Returns a denormal number as 0 of its sign.
INLINE float tile_flushed(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

INLINE float tile_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// sum + a b, rounded once. In double the product of two bf16 is exact, and rounding the sum twice
// is rounding it once: the product has 16 bits and the sum 24, so where double loses any, the
// smaller of both is less than 2^-27 of the larger, which is not a tie between two floats. A result
// below 2^-126 after rounding to 24 bits with an unlimited exponent is 0.
INLINE float tile_fma(float sum, float a, float b) {
    const double total = (double)a * (double)b + (double)sum, tiny = 0x1p-126 - 0x1p-151;
    return fabs(total) < tiny ? copysignf(0, (float)total) : (float)total;
}

static inline void tile_dot(int i, int j) {
    float low[TILE_SIDE][TILE_SIDE], high[TILE_SIDE][TILE_SIDE]; // of the columns' words
    DRV_ASSERT(tiles.there, "tile registers are used before tiles_begin or after tiles_end");
    for (int w = 0; w < TILE_SIDE; w++)
        for (int n = 0; n < TILE_SIDE; n++) {
            const uint32_t word = tiles.row[COLUMNS_TILE + j][w][n];
            low[w][n] = tile_flushed(tile_float(word << 16));
            high[w][n] = tile_flushed(tile_float(word & 0xFFFF0000u));
        }
    for (int m = 0; m < TILE_SIDE; m++) {
        float even[TILE_SIDE] = {0}, odd[TILE_SIDE] = {0};
        for (int w = 0; w < TILE_SIDE; w++) {
            const uint32_t word = tiles.row[ROWS_TILE + i][m][w];
            const float a_low = tile_flushed(tile_float(word << 16)),
                        a_high = tile_flushed(tile_float(word & 0xFFFF0000u));
            for (int n = 0; n < TILE_SIDE; n++) {
                even[n] = tile_fma(even[n], a_low, low[w][n]);
                odd[n] = tile_fma(odd[n], a_high, high[w][n]);
            }
        }
        for (int n = 0; n < TILE_SIDE; n++) {
            uint32_t *to = &tiles.row[SUMS_TILE + 2 * i + j][m][n];
            const float both = tile_flushed(even[n] + odd[n]),
                        sum = tile_flushed(tile_flushed(tile_float(*to)) + both);
            memcpy(to, &sum, sizeof sum);
        }
    }
}
