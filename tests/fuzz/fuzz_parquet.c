#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "data/read/parquet.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    char path[64];
    parquet_reader *r;
    snprintf(path, sizeof path, "/tmp/drover-fuzz-%d.parquet", (int)getpid());
    if (file_write_atomic(path, p, n) == DRV_OK && parquet_open(path, "text", &r) == DRV_OK) {
        str value = {0};
        bool null, row = true;
        for (int i = 0; i < 10000 && row; i++) {
            str_clear(&value);
            if (parquet_next(r, &value, &null, &row) != DRV_OK) break;
        }
        str_free(&value);
        parquet_close(r);
    }
    unlink(path);
    return 0;
}
