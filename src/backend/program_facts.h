// The memory of a compiled program, and statistics that show where the compiler failed to produce
// fast code: X_asked is the number in the StableHLO text, X that in the compiled program. An op in
// a loop is counted once.
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
    int64_t update_kernels;  // kernels that write them and their state, ideally one per weight
} program_facts;

// The memory of a program as its compiler plans it, in bytes of a device. `aliased` bytes of the
// results reuse the memory of arguments; `elsewhere` is state of other loaded programs, which stays
// on the device while this one runs. If the back end has divided the program into parts, the
// numbers are those of the part that needs most. `on_host`: temporary memory of the host.
typedef struct backend_memory {
    int64_t arguments, results, aliased, temporary, code, elsewhere, on_host;
} backend_memory;

// Returns the bytes on the device while the program runs.
static inline int64_t backend_memory_total(const backend_memory *m) {
    return m->arguments + m->results - m->aliased + m->temporary + m->elsewhere;
}
