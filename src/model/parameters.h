// The weights of one rank: their names and shapes, their position in the model, and the Hugging
// Face parameters that they consist of.
#pragma once
#include "kernels/blocks/block_matrix.h"
#include "base/dtype.h"
#include "base/name_map.h"
#include "model/layout.h"
#include "model/lora.h"

enum { MAX_PARTS = 3 };

// A part of a weight: rows row .. row + rows - 1 are rows of one Hugging Face parameter, from
// first_row on.
typedef struct param_part {
    const char *hf_name;
    int64_t row, rows;
    int64_t first_row, all_rows; // of the Hugging Face parameter
} param_part;

// The split of a weight over the tensor axis, if that has several ranks.
typedef enum param_split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS } param_split;

// The distribution of a weight's initial values.
typedef enum param_init {
    INIT_NORMAL,  // model.initializer_range wide
    INIT_ONES,    // norms
    INIT_UNIFORM, // between -1/sqrt(in) and 1/sqrt(in), as PEFT's lora_A
    INIT_ZEROS
} param_init;

// Projections that read the same input are one weight of several parts (docs/adr/0003).
typedef struct param {
    const char *name;
    int n_dims;     // 2: matrix [out, in]; 1: norm, bias
    int64_t dim[2]; // of this rank
    param_split split;
    int64_t first_column, all_columns; // of the Hugging Face parameters
    param_part part[MAX_PARTS];
    int n_parts;
    param_init init;
    bool trainable;             // false: frozen, no gradient, no master, no optimizer state
    const block_matrix *blocks; // quantised blocks of a frozen matrix; NULL: elements of param_dtype
    bool is_copy; // a tied head, which the first pipeline stage also has and which is counted there
    bool is_adapter;                       // stored in an adapter's folder, not in the model's
    const struct param_branches *branches; // of a projection; NULL: none
    const struct param *bias;              // of a projection: [dim[0]]; NULL: none
} param;

// Low-rank branches of some parts of a projection (docs/adr/0008): y += scale_i (x A_i^T) B_i^T on
// the columns of part i. The matrices A_i, which read the same input, are stacked into one.
typedef struct param_branches {
    const param *a;            // [all ranks, in]
    const param *b[MAX_PARTS]; // [rows of the part, rank]
    int column[MAX_PARTS];     // first column of the part in y
    double scale[MAX_PARTS];
    int n;
    int site; // number of the input in the model, which selects its dropout mask
} param_branches;

typedef struct layer_params {
    const param *input_norm; // [H]
    const param *qkv;        // [C, H]
    const param *q_norm;     // [head_dim], of every query head; NULL: none
    const param *k_norm;     // likewise of keys
    const param *o;          // [H, q_width]
    const param *post_norm;  // [H]
    const param *gate_up;    // [2 F, H]
    const param *down;       // [H, F]
} layer_params;

typedef struct param_list {
    model_layout layout;
    param *p; // all of them, each once, in the order of the data
    int n;
    // [V, H], [H], [V, H]; tied: head is embedding. NULL where another stage has them.
    const param *embedding, *final_norm, *head;
    layer_params *layer; // layout.n_layers, chunk after chunk
    name_map by_part;    // Hugging Face name -> param
} param_list;

// Lists the weights in `a`. All are trainable; with LoRA (`lora` neither NULL nor empty) only the
// low-rank branches are.
param_list llama_params(arena *a, const model_layout *sizes, const lora_set *lora);
int64_t param_elements(const param *p);
// Norms and biases stay in fp32: they are a few thousand numbers and no GEMM reads them.
dtype param_dtype(const param *p, dtype compute);
// Returns the weight that holds this Hugging Face parameter; NULL: none.
const param *param_of_part(const param_list *list, const char *hf_name);
