// Llama 2, 3 and 3.1 (arXiv:2307.09288, arXiv:2407.21783) as graphs of one rank.
//
// Legend: N = rows * seq tokens; H, V, F, C as in layout.h.
#pragma once
#include "ir/graph.h"
#include "model/parameters.h"

typedef enum llama_mode {
    LLAMA_LOSS,    // tokens, position, labels i32[N] -> loss f64[1], summed over counted tokens
    LLAMA_SCORE,   // the same inputs -> token_loss f64[N], 0 where the label is negative
    LLAMA_LOGITS,  // tokens, position -> logits [N,V]
    LLAMA_PREFILL, // prefill.SEQ.tokens, .position of one sequence -> the caches
    LLAMA_DECODE,  // decode.tokens, decode.position, the caches -> logits [N,V]
} llama_mode;

typedef struct llama_opts {
    int64_t rows, seq;
    dtype dt;         // of GEMM inputs and stored activations
    int64_t capacity; // of the caches, tokens
    double dropout;   // of the inputs of low-rank branches. Above 0: rows i32[2 rows] is an input
    int64_t seed;     // of dropout
} llama_opts;

// `params` are needed while the graph is built only. Weights that are not trainable are frozen in it.
graph *llama_build(arena *a, const param_list *params, llama_mode mode, const llama_opts *opts);
