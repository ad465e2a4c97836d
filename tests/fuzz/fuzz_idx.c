// Any bytes as a data set's .idx: refused by a message, or every document is read.
#include "fuzz.h"

#include "data/set/dataset.h"

// The input is the index; the tokens are 64 zero bytes.
void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char zeros[64];
    dataset *d;
    fuzz_file(a, "set.bin", zeros, sizeof zeros);
    fuzz_file(a, "set.idx", bytes, n_bytes);
    if (dataset_open(a, path_join(a, fuzz_folder(), "set"), &d) == DRV_OK) {
        int32_t ids[64];
        for (int64_t i = 0; i < d->n_documents && i < 100; i++) {
            int64_t first = dataset_document_start(d, i), end = dataset_document_start(d, i + 1);
            drv_status s = dataset_read(d, first, end - first, 100, ids);
            (void)s;
        }
        dataset_close(d);
    }
}
