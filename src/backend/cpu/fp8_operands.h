// Products in fp8 on the CPU: both operands are rounded to fp8 (kernels/fp8.h), stored in scratch
// in their own type, and multiplied as usual. Since scales are powers of 2, this is what fp8 units
// compute, except for the order of the sum.
#pragma once
#include "backend/cpu/cpu_op.h"

// Returns the scratch of both operands, which comes before that of the product itself.
int64_t fp8_workspace(const node *n);
// Calls `product` with the rounded operands and the rest of the scratch. The scale of an operand
// follows from its largest number on all ranks along fp8_axes.
void fp8_run(const instruction *ins, void (*product)(const instruction *ins));
