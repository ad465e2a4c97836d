// Products of bf16 by the bf16 dot product.
#pragma once
#include "kernels/levels/gemm_blocks.h"
#include "kernels/levels/words_pair.h"

static void pair_tile(int64_t n_words, words_a a, const uint32_t *panel, const tile_ends *p,
        lines *ahead) {
    packed_tile(pair_mac, false, n_words, a, panel, p, ahead);
}

static void general_pair_tile(int64_t n_words, words_a a, const uint32_t *panel, const tile_ends *p,
        lines *ahead) {
    packed_tile(pair_mac, true, n_words, a, panel, p, ahead);
}

static void gemm_bf16(const gemm_shape *shape, const void *a, const void *b, void *c,
        void *scratch) {
    tile_function *tile = is_general(shape) ? general_pair_tile : pair_tile;
    gemm_blocks(&pair_words, tile, shape, a, b, c, scratch);
}
