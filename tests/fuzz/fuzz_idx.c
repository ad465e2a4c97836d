// Any bytes as a data set's .idx: refused by a message, or every document is read.
#include <stdio.h>
#include <unistd.h>

#include "data/set/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

// The input is the index; the tokens are 64 zero bytes.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static const char zeros[64];
    char prefix[64], path[80];
    arena *a = arena_new("fuzz");
    dataset *d;
    snprintf(prefix, sizeof prefix, "/tmp/drover-fuzz-%d", (int)getpid());
    snprintf(path, sizeof path, "%s.bin", prefix);
    if (!file_exists(path) && file_write_atomic(path, zeros, sizeof zeros) != DRV_OK) return 0;
    snprintf(path, sizeof path, "%s.idx", prefix);
    if (file_write_atomic(path, bytes, n_bytes) == DRV_OK &&
            dataset_open(a, prefix, &d) == DRV_OK) {
        int32_t ids[64];
        for (int64_t i = 0; i < d->n_documents && i < 100; i++) {
            int64_t first = dataset_document_start(d, i), end = dataset_document_start(d, i + 1);
            drv_status s = dataset_read(d, first, end - first, 100, ids);
            (void)s;
        }
        dataset_close(d);
    }
    unlink(path);
    arena_free(a);
    return 0;
}
