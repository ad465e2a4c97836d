// Products in fp8 on the CPU: both operands are rounded to fp8 (kernels/fp8.h) into scratch, in the
// type that they have, and multiplied as ever. Since scales are powers of 2, this is what fp8 units
// compute, up to the order of the sum.
#pragma once
#include "backend/cpu/cpu_op.h"

// Returns the scratch of both operands, which comes before that of the product itself.
int64_t fp8_workspace(const node *n);
// Calls `product` with the rounded operands and the rest of the scratch. The largest number of an
// operand is that of the parts which all ranks along its fp8_axes have.
void fp8_run(const instruction *ins, void (*product)(const instruction *ins));
