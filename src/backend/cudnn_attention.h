// Attention by cuDNN on CUDA, as far as it is known without a device: which nodes cuDNN computes,
// in which form, and how much memory this needs in addition to the plan (docs/adr/0042). Legend: n
// a node of attention or attention_grad; g the graph of a program.
#pragma once
#include "ir/graph.h"

// The form in which cuDNN is given the documents of a row.
typedef enum document_way { DOCUMENTS_BY_RULE, DOCUMENTS_MASK, DOCUMENTS_SEGMENTS } document_way;

typedef struct cudnn_choice {
    int head_dim; // the largest head_dim that it computes; 0: none
    document_way documents;
    bool deterministic; // its calls are reproducible to the bit
} cudnn_choice;

// The largest head_dim that cuDNN computes forward and backward, and that on Hopper and later (JAX:
// check_is_flash_attention).
enum { CUDNN_HEAD_DIM = 128, CUDNN_HOPPER_HEAD_DIM = 256 };

typedef enum cudnn_form {
    CUDNN_NONE,   // the node is computed without it
    CUDNN_CAUSAL, // rows of one document, with a window or without
    CUDNN_MASK,   // a mask is added to the scores
    CUDNN_SEGMENTS
} cudnn_form;
cudnn_form cudnn_form_of(const cudnn_choice *how, const node *n);

// Returns the tokens of a row with a mask: odd lengths are padded, which the gradient needs.
int64_t cudnn_mask_tokens(int64_t tokens);
// Returns the bytes of the mask that the node at `index` is the first to read, and sets *last to
// the last node that reads it; 0: there is no such mask.
int64_t cudnn_mask_of(const cudnn_choice *how, const graph *g, int index, int *last);
// Counts the bytes of a program's masks, which are allocated from its first attention to its last.
int64_t cudnn_mask_bytes(const cudnn_choice *how, const graph *g);
// Estimates the scratch of the call that needs most, which the compiler learns from cuDNN only on a
// device: the deterministic gradient needs the square of a row in cuDNN before 9.25; segments need
// statistics.
int64_t cudnn_workspace_bytes(const cudnn_choice *how, const graph *g);
