// Graph -> graph, or parameters -> graph. Each pass says which stage of a graph it takes and which
// it gives. Whoever runs passes has graph_verify look at the graph when its stage changes, and
// after the last of several that leave it in one.
#pragma once
#include "ir/graph.h"

// STAGE_BUILT -> STAGE_DIFFERENTIATED. Appends the backward nodes: for every trainable weight W the
// state "grad.W" gains dL/dW, where L = the output `name` times the input "dNAME" of the same type;
// for every input X that is marked trainable the output "dX" is dL/dX. Nothing is computed that
// leads to frozen weights alone.
void pass_autodiff(graph *g, const char *name);

// STAGE_DIFFERENTIATED -> the same. Trades time for memory; the values stay the same to the bit.
typedef enum recompute_policy {
    KEEP_ALL,
    KEEP_GEMMS, // norms, activations and the attention core again (arXiv:2205.05198, section 5)
    KEEP_STREAM // whole layers again, from the residual stream (arXiv:1604.06174)
} recompute_policy;
void pass_recompute(graph *g, recompute_policy policy);

// STAGE_DIFFERENTIATED -> the same. The sums of gradients (states "grad.W") become bf16, rounded
// stochastically as each micro-batch is added (docs/adr/0019): INPUT_NUMBER of the chunk (or
// INPUT_ALONE), with so many slots, tells micro-batches of a run apart.
void pass_round_gradients(graph *g, int chunk, int n_slots);

// The way in which ranks keep shards of the sums of gradients (ZeRO-2, docs/adr/0021).
typedef struct gradient_shards {
    int ranks; // data and context ranks, each with a shard; 0: sums are whole
    int data_ranks,
            row_blocks; // of them so many neighbours have the same reduction blocks, `row_blocks`
                        // each
    int64_t micro_batches; // of a step, of all ranks; data rank i has numbers i, i + data_ranks, ...
    int64_t in_accum_group; // of an accumulation group, whose sums are joined in a tree
} gradient_shards;
// STAGE_DIFFERENTIATED -> the same. Each sum becomes this rank's shard of it. INPUT_TURN of
// the chunk, with so many slots, says which of the rank's micro-batches of the step it is, from 0.
void pass_shard_gradients(graph *g, const gradient_shards *by, int chunk, int n_slots);
// Return the state of those shards in another program, and the shard of the gradient when all
// micro-batches are there.
tensor *pass_shards(graph *g, const char *name, const tensor *w, const gradient_shards *by);
tensor *pass_join_shards(graph *g, tensor *sums, const gradient_shards *by);

// The way in which data ranks sum gradients while the backward pass goes on (docs/adr/0027).
typedef struct gradient_sums {
    int ranks;         // data and context ranks; 0: the update sums
    int data_ranks;    // of them
    int micro_batches; // of a rank and step
    bool whole;        // all ranks get all of each sum; else each its shard
} gradient_sums;
// STAGE_DIFFERENTIATED -> the same. For each sum a node joins the ranks. INPUT_LAST of the chunk,
// with so many slots, says whether this is the rank's last micro-batch of the step.
void pass_overlapped_sums(graph *g, const gradient_sums *by, int chunk, int n_slots);

// A weight that Muon updates (ir/ops/muon.c): up to three matrices, one below the other, each
// orthogonalised by itself.
typedef struct muon_weight {
    bool is;                   // else AdamW updates the weight
    bool by_columns;           // how tensor ranks cut it, where they do
    int second_row, third_row; // of this rank's part; 0: there is none
} muon_weight;

// The update program: gradients of all ranks, global norm, then AdamW or Muon, for `n` weights
// given as tensors of a training graph (the trainable ones).
typedef struct update_opts {
    double beta1, beta2, eps, weight_decay; // decay is for matrices; see decay_norms
    mesh mesh;         // mesh_of_update of the ranks: gradients are summed over its data axis
    const bool *split; // by weight: over the tensor axis. NULL where that has one rank
    // Two marks of each weight; NULL: none has it. `tied`: used on the first and on the last stage,
    // or twice on one rank, where its gradient has a second part (grad_open). `copy`: of one on
    // another rank: norms count it there.
    const bool *tied, *copy;
    // Reduction blocks of the row on this rank, and ranks that have the same ones: of those in the
    // data axis of `mesh` so many neighbours.
    int row_blocks, data_ranks;
    bool zero;            // data ranks share the optimizer: each has a shard of its state (ZeRO-1)
    dtype moments, grads; // DT_BF16: rounded stochastically (docs/adr/0019); else sums of weights
    bool no_masters;      // a weight in bf16 is updated itself
    gradient_shards shards; // of sums of gradients; with `zero`
    bool summed;            // pass_overlapped_sums has summed gradients over the ranks
    bool gathers_async;     // new weights come from other ranks while the next program runs
    // The sum of each gradient over all ranks, or this rank's shard of it, stays as the output
    // "gradient.W" for the host to read.
    bool keep_gradients;
    bool decay_norms;        // weight_decay is for vectors too
    const muon_weight *muon; // by weight; NULL: AdamW updates all
    double muon_momentum;
    int ns_steps;         // of Newton-Schulz
    double normuon_beta2; // 0: Muon; else NorMuon
    // Needs `zero`: each matrix is orthogonalised by one of the data ranks, of which this is number
    // `place`; else by all.
    bool muon_owners;
    int place;
} update_opts;
// Adds the extent of a weight, by its name: which elements of the model it is (ir/rounding.h);
// state that the host writes.
tensor *pass_extent(graph *g, const char *weight);
// Returns a new graph in STAGE_DIFFERENTIATED.
graph *pass_update(arena *a, tensor *const *weights, int n, const update_opts *opts);

// Returns a new graph in STAGE_DIFFERENTIATED. Moves the gradients of `n` weights to slot number
// `slot` (states "accum_groupK.W") and clears them, or adds that slot to them from the left.
// `row_blocks`: reduction blocks of the row on this rank; grads: as in update_opts.
graph *pass_accum_group(arena *a, tensor *const *weights, int n, int slot, int row_blocks,
        bool put_aside, dtype grads);
// Returns the type that state of a weight in `dt` has: bf16 if `kept` says so, or that of its sums.
static inline dtype pass_kept_type(dtype kept, dtype dt) {
    return kept == DT_BF16 && dt != DT_F64 ? DT_BF16 : dtype_acc(dt);
}
// graph_accumulator in `grads`.
static inline tensor *pass_sum(graph *g, const char *name, const tensor *w, dtype grads) {
    tensor *sum = graph_accumulator(g, name, w);
    sum->dt = pass_kept_type(grads, w->dt);
    return sum;
}

// Cuts the differentiated graph of a pipeline stage into programs that run at different times, each
// on one slot: forward; backward; and, where the weight gradients are split off, what nobody else
// waits for. Values that one makes and another reads become kept state with `n_slots` slots.
typedef enum cut_part { CUT_FORWARD, CUT_BACKWARD, CUT_WEIGHTS, N_CUTS } cut_part;
typedef struct cut_opts {
    const char *prefix; // of the names of programs and of what is kept
    int n_slots;
    bool split_weights;
} cut_opts;
// STAGE_DIFFERENTIATED -> graphs in the same. out[CUT_WEIGHTS] is NULL unless they are split off.
// The graphs live in `a`.
void pass_cut(arena *a, const graph *g, const cut_opts *opts, graph *out[N_CUTS]);
