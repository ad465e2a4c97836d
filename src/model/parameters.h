// The weights of one rank: their names and shapes, their place in the model, and which Hugging Face
// parameters they are made of.
#pragma once
#include "base/dtype.h"
#include "base/name_map.h"
#include "model/layout.h"

enum { MAX_PARTS = 3 };

// Rows row .. row + rows - 1 of a weight are one Hugging Face parameter.
typedef struct param_part {
    const char *hf_name;
    int64_t row, rows;
} param_part;

// Projections that read the same input are one weight of several parts (docs/adr/0003).
typedef struct param {
    const char *name;
    int n_dims; // 2: matrix [out, in]; 1: norm
    int64_t dim[2];
    param_part part[MAX_PARTS];
    int n_parts;
    bool trainable; // false: no gradient, no optimizer state
} param;

typedef struct layer_params {
    const param *input_norm; // [H]
    const param *qkv;        // [C, H]
    const param *o;          // [H, q_width]
    const param *post_norm;  // [H]
    const param *gate_up;    // [2 F, H]
    const param *down;       // [H, F]
} layer_params;

typedef struct param_list {
    model_layout layout;
    param *p; // all of them, each once, in the order of the data
    int n;
    const param *embedding, *final_norm, *head; // [V, H], [H], [V, H]; tied: head is embedding
    layer_params *layer;                        // layout.n_layers
    name_map by_part;                           // Hugging Face name -> param
} param_list;

// All are trainable. Lives in `a`.
param_list llama_params(arena *a, const model_layout *l);

int64_t param_elements(const param *p);
// Norms stay in fp32: they are a few thousand numbers and no GEMM reads them.
dtype param_dtype(const param *p, dtype compute);
// The weight that holds this Hugging Face parameter; NULL: none.
const param *param_of_part(const param_list *list, const char *hf_name);
