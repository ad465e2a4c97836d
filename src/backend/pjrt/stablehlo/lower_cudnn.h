// The rules of attention by cuDNN, for nodes for which backend/cudnn_attention.h has a form.
#pragma once
#include "backend/pjrt/stablehlo/lower.h"

void lower_cudnn_attention(lowering *l, const node *n);
void lower_cudnn_attention_grad(lowering *l, const node *n);
