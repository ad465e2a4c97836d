// Attention by cuDNN on CUDA, as far as it can be known without a device: which nodes it computes,
// in which form, and the memory that this takes beside what a plan places (docs/adr/0042). Legend:
// n a node of attention or attention_grad; g the graph of a program.
#pragma once
#include "ir/graph.h"

// The form in which cuDNN is told of several documents in a row.
typedef enum document_way { DOCUMENTS_BY_RULE, DOCUMENTS_MASK, DOCUMENTS_SEGMENTS } document_way;

typedef struct cudnn_choice {
    int head_dim; // it computes heads of so many numbers at most; 0: none
    document_way documents;
    bool deterministic; // its calls give the same bits again
} cudnn_choice;

// Heads that cuDNN takes, both ways; those of Hopper and later (JAX: check_is_flash_attention).
enum { CUDNN_HEAD_DIM = 128, CUDNN_HOPPER_HEAD_DIM = 256 };

typedef enum cudnn_form {
    CUDNN_NONE,   // the node is computed without it
    CUDNN_CAUSAL, // rows of one document, with a window or without
    CUDNN_MASK,   // a mask says what is seen
    CUDNN_SEGMENTS
} cudnn_form;
cudnn_form cudnn_form_of(const cudnn_choice *how, const node *n);

// Returns the tokens of a row with a mask: rows of an odd number are filled up, for the gradient.
int64_t cudnn_mask_tokens(int64_t tokens);
// Counts the bytes of the masks of a program, which are there from its first attention to its last.
int64_t cudnn_mask_bytes(const cudnn_choice *how, const graph *g);
// Counts the bytes of scratch of the call that needs most, which the compiler learns from cuDNN on
// a device alone: those of the deterministic gradient, the square of a row, as cuDNN has it before
// 9.25; and statistics of segments.
int64_t cudnn_workspace_bytes(const cudnn_choice *how, const graph *g);
