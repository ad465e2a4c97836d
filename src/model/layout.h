// How much of a model one rank holds: the sizes that parameters and graph share. Everything above
// asks here instead of computing widths from the config, so that splitting a model over ranks is a
// change of layout_of alone.
//
// Legend: H hidden_size, V vocab_size, F intermediate_size, C columns of the fused q, k, v.
#pragma once
#include "config/model_config.h"

typedef struct model_layout {
    const model_config *model; // must outlive the layout; for what ranks do not share (eps, theta)
    int n_layers, n_heads, n_kv_heads, head_dim;
    int64_t hidden, vocab, ffn; // H, V, F
    int64_t q_width, kv_width;  // columns of q, and of k or v
    int64_t qkv_width;          // C = q_width + 2 kv_width
} model_layout;

model_layout layout_of(const model_config *model);
