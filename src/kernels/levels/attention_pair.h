// Attention on bf16 by the bf16 dot product.
#pragma once
#include "kernels/levels/attention_backward.h"
#include "kernels/levels/attention_forward.h"
#include "kernels/levels/words_pair.h"

static void pair_product(int64_t m, int64_t n, int64_t n_words, words_a a, words_b b, sums c,
        bool add) {
    block_product(pair_mac, m, n, n_words, a, b, c, add);
}

static void attention_bf16(const attention_args *args, int64_t unit, void *scratch) {
    attention_forward(&pair_words, pair_product, args, unit, scratch);
}
static void attention_grad_bf16(const attention_args *args, int64_t unit, void *scratch) {
    attention_backward(&pair_words, pair_product, args, unit, scratch);
}
