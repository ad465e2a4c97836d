// Hashes of gradients and weights that are the same on any layout, so that two runs can be compared
// step by step and tensor by tensor (training.hash_every).
#pragma once
#include "weights/state.h"

typedef struct tensor_hashes {
    const ckpt_tensor *list; // the same tensors on all ranks
    int n;
    const uint64_t *of; // by tensor
    uint64_t all;
} tensor_hashes;

typedef struct state_hashes {
    const char *arithmetic;  // how the run computes (backend_arithmetic)
    uint64_t batch;          // tokens, positions and labels of the global batch
    tensor_hashes before;    // the trained weights with which the step computed (state_used)
    tensor_hashes gradients; // of the last update, summed over all ranks, before clipping
    tensor_hashes weights;   // the trained weights after the update: masters, if the run has them
} state_hashes;

// All ranks call both and get the same result, which lives in `a`. hashes_begin, before an update,
// fills `batch` (from this rank's part, batch_hash) and `before`; hashes_take, after it, the rest.
DRV_CHECKED drv_status hashes_begin(arena *a, const held_model *model, uint64_t batch,
        state_hashes *out);
DRV_CHECKED drv_status hashes_take(arena *a, const held_model *model, state_hashes *out);

// Finds the element of which one flipped bit would increase the hash of a tensor by `difference`,
// modulo 2^64: *element is its index, -1 if there is none. Every rank calls it and gets the same
// result. Takes seconds for 10^8 elements.
DRV_CHECKED drv_status hashes_find_bit(const held_model *model, const ckpt_tensor *t,
        uint64_t difference, int64_t *element, int *bit);

// Hashes an element of a tensor: its bits (the same ones for any NaN), its index and the hash of
// the tensor's name. The sum over elements, modulo 2^64, does not depend on how ranks share them.
uint64_t hashes_element(uint64_t name, int64_t element, float value);
uint64_t hashes_word(uint64_t name, int64_t element, uint32_t bits); // the same for 32 bits
