// Numbers that say what a compiler has made of a program: 0 where all is well; an op in a loop
// counts once.
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct program_facts {  // kept with compiled programs: fixed size, no pointers
    int64_t fused_asked, fused; // calls of fused attention, forward and backward
    int64_t products_asked, products;
    int64_t fp8_asked, fp8;  // of them, products whose operands are both fp8
    int64_t fp32_products;   // more than were asked for, where others are bf16
    int64_t summed_products; // gradients of weights by multiplying and adding up
    int64_t weight_copies;   // of whole weights
    int64_t updated_weights; // by the optimizer
    int64_t update_kernels;  // which write them and its state; as many is best
} program_facts;
