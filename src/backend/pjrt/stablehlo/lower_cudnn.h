// Attention by cuDNN (lower_cudnn.c), for lower_attention.c.
#pragma once
#include "backend/pjrt/stablehlo/lower.h"

// Returns whether cuDNN computes the node whose heads are `qkv`.
bool lower_cudnn_fits(const lowering *l, const node *n, const tensor *qkv);
void lower_cudnn_attention(lowering *l, const node *n);
void lower_cudnn_attention_grad(lowering *l, const node *n);
