// Statistics of a compiled program that show where the compiler failed to produce fast code. An op
// in a loop is counted once.
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct program_facts {  // stored with compiled programs, so it has a fixed size and no
                                // pointers
    int64_t fused_asked, fused; // calls of fused attention, forward and backward
    int64_t products_asked, products;
    int64_t fp8_asked, fp8;  // products with both operands in fp8
    int64_t fp32_products;   // more than the graph has, if other products are bf16
    int64_t summed_products; // weight gradients computed by multiplications and sums instead of
                             // products
    int64_t weight_copies;   // copies of whole weights
    int64_t updated_weights; // weights that the optimizer updates
    int64_t update_kernels;  // kernels that write them and their state; best is one a weight
} program_facts;
