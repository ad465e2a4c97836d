// Products of float words: fp32, and bf16 that is widened as it is packed.
#pragma once
#include "kernels/levels/gemm_blocks.h"

static void float_tile(int64_t n_words, words_a a, const uint32_t *panel, const tile_ends *p,
        lines *ahead) {
    packed_tile(float_mac, false, n_words, a, panel, p, ahead);
}

static void general_float_tile(int64_t n_words, words_a a, const uint32_t *panel,
        const tile_ends *p, lines *ahead) {
    packed_tile(float_mac, true, n_words, a, panel, p, ahead);
}

static void gemm_f32(const gemm_shape *shape, const void *a, const void *b, void *c,
        void *scratch) {
    tile_function *tile = is_general(shape) ? general_float_tile : float_tile;
    gemm_blocks(&f32_words, tile, shape, a, b, c, scratch);
}

static void gemm_bf16(const gemm_shape *shape, const void *a, const void *b, void *c,
        void *scratch) {
    tile_function *tile = is_general(shape) ? general_float_tile : float_tile;
    gemm_blocks(&wide_words, tile, shape, a, b, c, scratch);
}
