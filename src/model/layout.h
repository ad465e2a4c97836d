// The sizes of the part of a model that one rank holds, shared by parameters and graph. Other code
// does not compute widths from the config, so that only this file depends on how ranks split a
// model.
//
// Legend: H hidden_size, V vocab_size, F intermediate_size, C columns of the fused q, k, v.
#pragma once
#include "config/model_config.h"
#include "ir/mesh.h"

// A model chunk: the consecutive layers of one pipeline stage on this rank. A micro-batch visits
// the ranks in order, once for each chunk: chunk v of place p is stage v * ranks + p.
enum { MAX_CHUNKS = 32 };
typedef struct layer_chunk {
    int first, n;   // layers, numbered in the whole model
    int first_here; // index of the first one among the layers of this rank
} layer_chunk;

// The part of a model that one rank of a mesh holds. The tensor axis splits heads, feed-forward
// width and vocabulary into equal parts, the pipeline axis the layers into stages. `sequence`:
// between products each tensor rank has a part of the tokens (sequence parallelism).
typedef struct model_layout {
    const model_config *model; // must outlive the layout; for fields that ranks do not divide
    int n_layers;              // of this rank, in all its chunks
    int n_chunks;
    layer_chunk chunk[MAX_CHUNKS];
    bool embeds, has_head; // has the first stage; has the last stage, with final norm and head
    int n_heads, n_kv_heads, head_dim;
    int64_t hidden, vocab, ffn; // H, V, F
    int64_t q_width, kv_width;  // columns of q, and of k or v, whose weights this rank has
    int64_t qkv_width;          // C = q_width + 2 kv_width
    // The number of tensor ranks that share one key-value head if there are more ranks than such
    // heads: each has an equal part of its columns (docs/adr/0018). Otherwise 1.
    int replicas;
    mesh mesh;
    int place; // of this rank along the tensor axis
    bool sequence;
    // The reduction blocks on this rank and on all ranks: sums over dimensions that tensor ranks
    // split are trees over all of them, and this rank has a complete subtree (docs/adr/0012). 1:
    // plain sums.
    int blocks, all_blocks;
    int head_blocks;    // reduction blocks of this rank's query heads in a group; 1: a chain
    int64_t vocab_part; // rows of the vocabulary on each rank; the last one may have fewer
} model_layout;

model_layout layout_of(const model_config *model); // of one rank alone
// Returns the FLOPs of the head as a multiple of those of a layer (Llama-3.1-8B: 2.4).
double layout_head_in_layers(const model_config *model);
// Distributes the layers over the stages and writes the number of layers of each, at least 1, to
// out[n_stages]. The last stage gets fewer, since it also has the head, which takes as long as some
// layers. Of the other stages the later ones get the layers that remain after an even division: the
// first one has the embedding and the most micro-batches in flight.
void layout_share_layers(const model_config *model, int n_stages, int *out);
// Returns whether a rank of a pipeline has more layers in one of its chunks than the rank before
// it. `layers`: by stage.
bool layout_has_more_layers(const int *layers, int n_ranks, int n_chunks, int rank);
// Options of tensor parallelism: whether ranks also share the tokens between products, and the
// number of reduction blocks (0: up to 8 if heads and widths can be cut so, at least one per rank).
typedef struct layout_opts {
    bool sequence;
    int blocks;
} layout_opts;
// Fills the layout of one model chunk on one rank. DRV_E_USAGE names the size that does not divide.
DRV_CHECKED drv_status layout_on(const model_config *model, const mesh *ranks, int rank,
        const layout_opts *opts, model_layout *out);
// The same with the layers of all stages, as for a single pipeline rank.
model_layout layout_all_layers(const model_layout *l);
// Assigns the layers of `n_chunks` stages to the rank. DRV_E_USAGE: there are more stages than
// layers.
DRV_CHECKED drv_status layout_cut_layers(model_layout *layout, int rank, int n_chunks);
