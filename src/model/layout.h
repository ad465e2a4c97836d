// Says how much of a model one rank holds: the sizes that parameters and graph share. Everything
// above asks here instead of computing widths from the config, so that splitting a model over ranks
// is a change of layout_of alone.
//
// Legend: H hidden_size, V vocab_size, F intermediate_size, C columns of the fused q, k, v.
#pragma once
#include "config/model_config.h"
#include "ir/mesh.h"

// A stage of the pipeline on this rank: consecutive layers of the model. A micro-batch visits the
// ranks in order, as many times as each has chunks: chunk v of place p is stage v * ranks + p.
enum { MAX_CHUNKS = 32 };
typedef struct layer_chunk {
    int first, n;   // layers, numbered in the whole model
    int first_here; // where they begin among those of this rank
} layer_chunk;

// A layout says which part of the model one rank of a mesh has: over the tensor axis heads,
// feed-forward width and vocabulary are cut in equal parts, over the pipeline axis the layers in
// runs. `sequence`: between products each tensor rank has a part of the tokens.
typedef struct model_layout {
    const model_config *model; // must outlive the layout; for what ranks do not share (eps, theta)
    int n_layers;              // of this rank, in all its chunks
    int n_chunks;
    layer_chunk chunk[MAX_CHUNKS];
    bool embeds, has_head; // the first stage is here; the last one is, with final norm and head
    int n_heads, n_kv_heads, head_dim;
    int64_t hidden, vocab, ffn; // H, V, F
    int64_t q_width, kv_width;  // columns of q, and of k or v, that this rank has the weights of
    int64_t qkv_width;          // C = q_width + 2 kv_width
    // Tensor ranks that work with one key-value head, where there are more of them than heads: each
    // has an equal share of its columns (docs/adr/0018). Else 1.
    int replicas;
    mesh mesh;
    int place; // of this rank along the tensor axis
    bool sequence;
    // Sums over what tensor ranks split are trees of so many reduction blocks, those of this rank a
    // complete part of them (docs/adr/0012). 1: chains.
    int blocks, all_blocks;
    int head_blocks;    // of the query heads of a group, those of this rank; 1: a chain
    int64_t vocab_part; // rows of the vocabulary of each rank, of the last one perhaps fewer
} model_layout;

model_layout layout_of(const model_config *model); // of one rank alone
// Returns the products of a token in the head, in those of a layer (Llama-3.1-8B: 2.4).
double layout_head_in_layers(const model_config *model);
// Deals the layers out to the stages. The last one also has the head, which takes as long as some
// of them, so it gets fewer; of what does not divide the first gets nothing if it can be (it has
// the embedding, and the most micro-batches in flight). `out`: n_stages numbers, each at least 1.
void layout_share_layers(const model_config *model, int n_stages, int *out);
// The way in which tensor ranks share the model: tokens between products as well; reduction blocks
// of all sums (0: up to 8 that heads and widths can be cut into, or one for each rank).
typedef struct layout_opts {
    bool sequence;
    int blocks;
} layout_opts;
// Fills the layout of one chunk on one rank of the mesh. DRV_E_USAGE names what does not divide.
DRV_CHECKED drv_status layout_on(const model_config *model, const mesh *ranks, int rank,
        const layout_opts *opts, model_layout *out);
// The same with the layers of all stages, as one rank has them.
model_layout layout_all_layers(const model_layout *l);
// Gives it the layers of `n_chunks` stages. DRV_E_USAGE: there are fewer layers than stages.
DRV_CHECKED drv_status layout_cut_layers(model_layout *layout, int rank, int n_chunks);
