// How much of a model one rank holds: the sizes that parameters and graph share. Everything above
// asks here instead of computing widths from the config, so that splitting a model over ranks is a
// change of layout_of alone.
//
// Legend: H hidden_size, V vocab_size, F intermediate_size, C columns of the fused q, k, v.
#pragma once
#include "config/model_config.h"
#include "ir/mesh.h"

// What one rank of a mesh has: over the tensor axis heads, feed-forward width and vocabulary are
// cut in equal parts. `sequence`: between products each rank has a part of the tokens.
typedef struct model_layout {
    const model_config *model; // must outlive the layout; for what ranks do not share (eps, theta)
    int n_layers, n_heads, n_kv_heads, head_dim;
    int64_t hidden, vocab, ffn; // H, V, F
    int64_t q_width, kv_width;  // columns of q, and of k or v
    int64_t qkv_width;          // C = q_width + 2 kv_width
    mesh mesh;
    int place; // of this rank along the tensor axis
    bool sequence;
} model_layout;

model_layout layout_of(const model_config *model); // of one rank alone
// Of a rank of the mesh. DRV_E_USAGE names what the mesh does not divide.
DRV_CHECKED drv_status layout_on(const model_config *model, const mesh *place, int rank,
        bool sequence, model_layout *out);
