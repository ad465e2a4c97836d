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
    tensor_hashes gradients; // of the last update, summed over all ranks, before they were clipped
    tensor_hashes weights;   // what is trained, as the run keeps it: masters where there are some
} state_hashes;

// Every rank calls it, after an update, and gets the same; the arena holds it.
DRV_CHECKED drv_status hashes_take(arena *a, const held_model *p, state_hashes *out);

// Hashes an element of a tensor: its bits (alike of any NaN), with its index and the hash of the
// tensor's name. Sums of them, modulo 2^64, are the same however elements are split among ranks.
uint64_t hashes_element(uint64_t name, int64_t place, float value);
