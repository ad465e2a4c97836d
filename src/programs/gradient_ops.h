// The ops that compute a gradient, looked up in the graphs of a run.
#pragma once
#include "programs/programs.h"

// Appends the names of the ops whose nodes add to the gradient of a parameter (its Hugging Face
// name), in the order in which they run: "linear_cross_entropy_grad and embedding_grad"; nothing if
// no program of this rank has that gradient.
void programs_gradient_ops(const programs *p, const char *parameter, str *out);
