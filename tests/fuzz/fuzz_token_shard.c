// Any bytes as a file of token ids, .bin and .npy.
#include "records.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    const reader_opts opts = {
            .ids = {.taken = true, .n_vocab = 60000, .bin = {CUT_BEFORE, 7}, .npy = {CUT_AFTER, 7}}};
    read_records(".bin", p, n, &opts);
    read_records(".npy", p, n, &opts);
    return 0;
}
