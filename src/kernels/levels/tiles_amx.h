// The tile registers with AMX instructions. Included by tiles.h, which describes the functions. The
// permission to use them is requested once, beforehand (backend/cpu/gemm.c).
//
// The compiler does not know which memory the instructions read: a fence before each keeps it from
// moving writes of packed operands behind it.
#pragma once
#include <immintrin.h>

typedef struct tile_configuration { // as LDTILECFG reads it
    uint8_t palette, start_row, unused[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_configuration;
_Static_assert(sizeof(tile_configuration) == 64, "the configuration is a line of 64 bytes");

// `act` is a macro of one number that must be a literal.
#define OF_TILE(t, act)                                                                            \
    do {                                                                                           \
        __asm__ volatile("" ::: "memory");                                                         \
        switch (t) {                                                                               \
        case 0:                                                                                    \
            act(0);                                                                                \
            break;                                                                                 \
        case 1:                                                                                    \
            act(1);                                                                                \
            break;                                                                                 \
        case 2:                                                                                    \
            act(2);                                                                                \
            break;                                                                                 \
        case 3:                                                                                    \
            act(3);                                                                                \
            break;                                                                                 \
        case 4:                                                                                    \
            act(4);                                                                                \
            break;                                                                                 \
        case 5:                                                                                    \
            act(5);                                                                                \
            break;                                                                                 \
        case 6:                                                                                    \
            act(6);                                                                                \
            break;                                                                                 \
        default:                                                                                   \
            act(7);                                                                                \
            break;                                                                                 \
        }                                                                                          \
    } while (0)

INLINE void tiles_begin(void) {
    static const tile_configuration all = {.palette = 1,
            .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
            .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&all);
}

INLINE void tiles_end(void) {
    _tile_release();
}

INLINE void tile_zero(const int t) {
#define ACT(n) _tile_zero(n)
    OF_TILE(t, ACT);
#undef ACT
}

INLINE void tile_load(const int t, const void *p, int64_t stride) {
#define ACT(n) _tile_loadd(n, p, stride)
    OF_TILE(t, ACT);
#undef ACT
}

INLINE void tile_load_once(const int t, const void *p, int64_t stride) {
#define ACT(n) _tile_stream_loadd(n, p, stride)
    OF_TILE(t, ACT);
#undef ACT
}

INLINE void tile_store(const int t, void *p, int64_t stride) {
#define ACT(n) _tile_stored(n, p, stride)
    OF_TILE(t, ACT);
#undef ACT
}

INLINE void tile_dot(const int i, const int j) {
    if (i == 0 && j == 0)
        _tile_dpbf16ps(0, 4, 6);
    else if (i == 0)
        _tile_dpbf16ps(1, 4, 7);
    else if (j == 0)
        _tile_dpbf16ps(2, 5, 6);
    else
        _tile_dpbf16ps(3, 5, 7);
}
