// Llama 2, 3 and 3.1 (arXiv:2307.09288, arXiv:2407.21783) as graphs of one rank.
//
// Legend: N = rows * seq tokens, H hidden_size, V vocab_size, F intermediate_size,
// C = (heads + 2 kv_heads) * head_dim.
#pragma once
#include "config/model_config.h"
#include "ir/graph.h"

// One weight of the graph. Projections that read the same input are one matrix; `part` says which
// of its rows are which Hugging Face parameter.
typedef struct param_part {
    const char *hf_name;
    int64_t row, rows;
} param_part;

typedef struct param {
    const char *name;
    int n_dims; // 2: matrix [out, in]; 1: norm
    int64_t dim[2];
    param_part part[3];
    int n_parts;
} param;

typedef struct param_list {
    param *p;
    int n;
} param_list;

param_list llama_params(arena *a, const model_config *m);
int64_t param_elements(const param *p);
// Norms stay in fp32: they are a few thousand numbers and no GEMM reads them.
dtype param_dtype(const param *p, dtype compute);

typedef enum llama_mode {
    LLAMA_LOSS,    // tokens, position, labels i32[N] -> loss f64[1], summed over counted tokens
    LLAMA_LOGITS,  // tokens, position -> logits [N,V]
    LLAMA_PREFILL, // prefill.tokens, prefill.position of one sequence -> the caches
    LLAMA_DECODE,  // decode.tokens, decode.position, the caches -> logits [N,V]
} llama_mode;

typedef struct llama_opts {
    int64_t rows, seq;
    dtype dt;         // of GEMM inputs and stored activations
    int64_t capacity; // of the caches, tokens
} llama_opts;

graph *llama_build(arena *a, const model_config *m, llama_mode mode, const llama_opts *o);
