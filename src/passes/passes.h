// Passes: graph -> graph, or parameters -> graph. Each comment names the stage of the graph that
// the pass expects and the stage that it produces. Callers run graph_verify when the stage changes
// and after the last of several passes over a stage.
#pragma once
#include "ir/graph.h"

// STAGE_BUILT -> STAGE_DIFFERENTIATED. Appends the backward nodes. With L = the output `name` times
// the input "dNAME" of the same type, dL/dW is added to the state "grad.W" of every trainable
// weight W, and the output "dX" is dL/dX for every input X that is marked trainable. Gradients that
// only frozen weights would need are not computed.
void pass_autodiff(graph *g, const char *name);

// STAGE_DIFFERENTIATED -> the same. Recomputes activations to save memory; the values stay the same
// to the bit.
typedef enum recompute_policy {
    KEEP_ALL,
    KEEP_SHARDS, // gather again what tensor ranks share (arXiv:2205.05198, section 4.2.2)
    KEEP_GEMMS,  // recompute norms, activations and attention (arXiv:2205.05198, section 5)
    KEEP_STREAM  // recompute whole layers from the residual stream (arXiv:1604.06174)
} recompute_policy;
void pass_recompute(graph *g, recompute_policy policy);

// STAGE_DIFFERENTIATED -> the same. Moves to the memory of the host what the backward pass of each
// layer but the last reads of its forward pass, whatever pass_recompute has left, and back; the
// values stay the same to the bit. Not for graphs that pass_cut cuts.
void pass_offload(graph *whole);

// STAGE_DIFFERENTIATED -> the same. Stores the sums of gradients (states "grad.W") in bf16, rounded
// stochastically as each micro-batch is added (docs/adr/0019). The random bits depend on
// INPUT_NUMBER of the model chunk (or INPUT_ALONE), which has n_slots slots.
void pass_round_gradients(graph *g, int chunk, int n_slots);

// The shards of the sums of gradients that ranks keep (ZeRO-2, docs/adr/0021).
typedef struct gradient_shards {
    int ranks;              // data and context ranks, each with a shard; 0: sums are not sharded
    int groups;             // of so many ranks, whose sums the update adds (docs/adr/0048); 0: one
    int data_ranks;         // neighbours among them that have the same reduction blocks
    int row_blocks;         // reduction blocks of the row on each rank
    int64_t micro_batches;  // of a group in a step; its data rank i has i, i + data_ranks, ...
    int64_t in_accum_group; // micro-batches in an accumulation group; a tree adds the groups
    bool async;             // a gradient is sent and added while the next one is computed
} gradient_shards;
// STAGE_DIFFERENTIATED -> the same. Replaces each sum by this rank's shard of it. INPUT_MICRO_BATCH
// of the model chunk, with n_slots slots, is the index of the micro-batch in the rank's step.
void pass_shard_gradients(graph *g, const gradient_shards *by, int chunk, int n_slots);
// Return the state of those shards in another program, and the shard of the gradient once all
// micro-batches are added: where there are several groups, that of each reduction block.
tensor *pass_shards(graph *g, const char *name, const tensor *w, const gradient_shards *by);
tensor *pass_join_shards(graph *g, tensor *sums, const gradient_shards *by);

// The shards of the weights that ranks hold (ZeRO-3, docs/adr/0046).
typedef struct weight_shards {
    int ranks;      // data and context ranks, each with a shard; 0: every rank holds whole weights
    int groups;     // of so many ranks, each with whole weights (docs/adr/0048); 0: one
    int data_ranks; // the data ranks among them
    bool early;     // a gather starts with the layer before, not with the one that needs it
    bool async;     // the back end runs it beside the layer before; else a compiler orders nodes
} weight_shards;
// Any stage -> the same. Replaces each weight by this rank's shard of it, and gathers it before the
// nodes that read it: for each layer's forward and backward pass, and for each use of a table. Call
// it on complete programs: a gathered weight must not cross from one to another (pass_cut).
void pass_shard_weights(graph *g, const weight_shards *by);

// The sums over data ranks that overlap with the backward pass (docs/adr/0027).
typedef struct gradient_sums {
    int ranks;         // data and context ranks; 0: the update program sums instead
    int data_ranks;    // the data ranks among them
    int micro_batches; // of a rank in a step
    bool whole;        // every rank gets the whole sum, not only its shard
} gradient_sums;
// STAGE_DIFFERENTIATED -> the same. Adds a node that sums each gradient over the ranks. INPUT_LAST
// of the model chunk, with n_slots slots, is 1 in the rank's last micro-batch of the step.
void pass_overlapped_sums(graph *g, const gradient_sums *by, int chunk, int n_slots);

// A weight that Muon updates (ir/ops/muon.c): up to three matrices, one below the other, each
// orthogonalised by itself.
typedef struct muon_weight {
    bool is;                   // else AdamW updates the weight
    bool by_columns;           // tensor ranks split its columns, not its rows
    int second_row, third_row; // of this rank's part; 0: there is none
} muon_weight;

// The update program: gradients of all ranks, global norm, then AdamW or Muon, for `n` weights
// given as tensors of a training graph (the trainable ones).
typedef struct update_opts {
    double beta1, beta2, eps, weight_decay; // decay is for matrices; see decay_norms
    mesh mesh;         // mesh_of_update of the ranks: gradients are summed over its data axis
    const bool *split; // by weight: tensor ranks split it. NULL: there is one tensor rank
    // Two flags of each weight; NULL: none has it. `tied`: used on the first and the last stage, or
    // twice on one rank, where its gradient has a second part (grad_open). `copy`: a copy of a
    // weight on another rank, which counts it in norms.
    const bool *tied, *copy;
    // Reduction blocks of the row on this rank, and the number of neighbours in the data axis of
    // `mesh` that have the same ones.
    int row_blocks, data_ranks;
    bool zero;              // each data rank has a shard of the optimizer state (ZeRO-1)
    dtype moments, grads;   // DT_BF16: rounded stochastically (docs/adr/0019); else as accumulators
    bool no_masters;        // bf16 weights are updated directly
    gradient_shards shards; // of sums of gradients; with `zero`
    bool weight_shards;     // the weights are shards too (pass_shard_weights); with `shards`
    bool summed;            // pass_overlapped_sums has summed gradients over the ranks
    bool gathers_async;     // new weights come from other ranks while the next program runs
    // Keeps the sum of each gradient over all ranks, or this rank's shard of it, as the output
    // "gradient.W" for the host.
    bool keep_gradients;
    bool decay_norms;        // weight_decay applies to vectors too
    const muon_weight *muon; // by weight; NULL: AdamW updates all
    double muon_momentum;
    int ns_steps;         // of Newton-Schulz
    double normuon_beta2; // 0: Muon; else NorMuon
    // Each matrix is orthogonalised by one of the data ranks, of which this is number `place`;
    // needs `zero`. False: all ranks orthogonalise all matrices.
    bool muon_owners;
    int place;
} update_opts;
// Adds the extent of the named weight, that is, which elements of the model it holds
// (ir/rounding.h); the host writes this state.
tensor *pass_extent(graph *g, const char *weight);
// Returns a new graph in STAGE_DIFFERENTIATED.
graph *pass_update(arena *a, tensor *const *weights, int n, const update_opts *opts);

// Returns a new graph in STAGE_DIFFERENTIATED. It moves the gradients of `n` weights to slot `slot`
// (states "accum_groupK.W") and clears them, or adds that slot to them as the left operand.
// `row_blocks`: reduction blocks of the row on this rank; grads: as in update_opts.
graph *pass_accum_group(arena *a, tensor *const *weights, int n, int slot, int row_blocks,
        bool put_aside, dtype grads);
// Returns the type of optimizer state for a weight in `dt`: bf16 if `kept` is, else the
// accumulation type.
static inline dtype pass_kept_type(dtype kept, dtype dt) {
    return kept == DT_BF16 && dt != DT_F64 ? DT_BF16 : dtype_acc(dt);
}
// Makes an accumulator (graph_accumulator) of the type that `grads` requests.
static inline tensor *pass_sum(graph *g, const char *name, const tensor *w, dtype grads) {
    tensor *sum = graph_accumulator(g, name, w);
    sum->dt = pass_kept_type(grads, w->dt);
    return sum;
}

// Cuts the differentiated graph of a pipeline stage into programs that run at different times, each
// on one slot: forward, backward and, if weight gradients are split off, the nodes that no other
// stage waits for. Values that one program computes and another reads become kept state with
// `n_slots` slots.
typedef enum cut_part { CUT_FORWARD, CUT_BACKWARD, CUT_WEIGHTS, N_CUTS } cut_part;
typedef struct cut_opts {
    const char *prefix; // of the names of programs and of kept state
    int n_slots;
    bool split_weights;
} cut_opts;
// STAGE_DIFFERENTIATED -> graphs in the same. out[CUT_WEIGHTS] is NULL unless they are split off.
// The graphs live in `a`.
void pass_cut(arena *a, const graph *g, const cut_opts *opts, graph *out[N_CUTS]);
