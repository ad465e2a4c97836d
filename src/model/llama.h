// Graphs of one rank for Llama 2, 3 and 3.1 (arXiv:2307.09288, arXiv:2407.21783) and related
// families (model/family/model_family.h).
//
// Legend: N = rows * seq tokens; H, V, F, C as in layout.h.
#pragma once
#include "ir/graph.h"
#include "model/parameters.h"

typedef enum llama_mode {
    // tokens, position, labels i32[N] -> loss f64[row_blocks * partial_sums], sums over counted
    // tokens;
    // with `preference` also hidden i32[2 N] (ir/ops/attention.c), pair i32[N], reference i32[2 N] ->
    // the loss is a sum over pairs, figures f64[3 row_blocks * partial_sums], log_probs f64[2 N]
    // (ir/ops/preference.c)
    LLAMA_LOSS,
    LLAMA_SCORE,   // the same inputs -> token_loss f64[N], 0 where the label is negative
    LLAMA_LOGITS,  // tokens, position -> logits [N,V]
    LLAMA_PREFILL, // prefill.SEQ.tokens, .position of one sequence -> the caches
    LLAMA_DECODE,  // decode.tokens, decode.position, the caches -> logits [N,V]
} llama_mode;

// The parameters of direct preference optimisation (DPO).
typedef struct preference_loss {
    double beta; // 0: the loss is that of tokens
    double label_smoothing;
} preference_loss;

typedef struct llama_opts {
    int64_t rows, seq; // seq: tokens of a row on this rank
    int row_blocks;   // LLAMA_LOSS: reduction blocks of each row on this rank (ir/zigzag.h); 0: one
    dtype dt;         // of GEMM inputs and stored activations
    bool fp8;         // products of layers with their weights are in fp8 (docs/adr/0047)
    int64_t capacity; // of the caches, tokens
    double dropout;   // of the inputs of low-rank branches; above 0: origin i32[3 N] is an input
    int64_t seed;     // of dropout
    // LLAMA_LOSS: the rows of each partial sum over tokens (docs/adr/0026); 0: all of them
    int64_t partial_sum_rows;
    bool adds_up; // gradients accumulate over several micro-batches (docs/adr/0021)
    // The model chunk to build, and the slots of its inputs (docs/adr/0011); 0: one.
    int chunk, n_slots;
    bool frozen_before;         // no earlier stage has a trainable weight
    bool causal;                // each row is one document: position counts from its first token
    int documents;              // otherwise: the most documents in a row; 0: not known
    bool continuations;         // LLAMA_SCORE: hidden i32[2 N] is an input (ir/ops/attention.c)
    preference_loss preference; // LLAMA_LOSS
    int64_t logit_bytes;        // memory for logits in fp32 at a time; 0: the default of a CPU
} llama_opts;

// With several pipeline stages each has its own graph, and the names of its inputs end in the
// number of its model chunk: tokens.0 (first stage), position.0, h.0 (other stages: the value of
// out.0 of the previous one), labels.0 (last stage). Only LLAMA_LOSS and LLAMA_SCORE support
// stages; all but the last output out.CHUNK, the residual stream [N, H]. h.CHUNK is differentiated
// unless everything before it is frozen. `params` is only read while the graph is built. Weights
// that are not trainable are frozen in the graph.
graph *llama_build(arena *a, const param_list *params, llama_mode mode, const llama_opts *opts);
