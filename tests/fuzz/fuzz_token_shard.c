// Any bytes as a file of token ids, .bin and .npy.
#include "records.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const reader_opts opts = {
            .ids = {.taken = true, .n_vocab = 60000, .bin = {CUT_BEFORE, 7}, .npy = {CUT_AFTER, 7}}};
    read_records(a, ".bin", bytes, n_bytes, &opts);
    read_records(a, ".npy", bytes, n_bytes, &opts);
}
