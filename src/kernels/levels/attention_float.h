// Attention by float words: fp32, and bf16 that is widened as it is packed.
#pragma once
#include "kernels/levels/attention_backward.h"
#include "kernels/levels/attention_forward.h"

static void float_product(int64_t m, int64_t n, int64_t n_words, words_a a, words_b b, sums c,
        bool add) {
    block_product(float_mac, m, n, n_words, a, b, c, add);
}

static void attention_f32(const attention_args *args, int64_t unit, void *scratch) {
    attention_forward(&f32_words, float_product, args, unit, scratch);
}
static void attention_grad_f32(const attention_args *args, int64_t unit, void *scratch) {
    attention_backward(&f32_words, float_product, args, unit, scratch);
}

static void attention_bf16(const attention_args *args, int64_t unit, void *scratch) {
    attention_forward(&wide_words, float_product, args, unit, scratch);
}
static void attention_grad_bf16(const attention_args *args, int64_t unit, void *scratch) {
    attention_backward(&wide_words, float_product, args, unit, scratch);
}
