// Any bytes as a safetensors file: refused by a message, or the end of each tensor is read.
#include "source/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    arena *a = arena_new("fuzz");
    st_file f;
    if (st_parse(a, "fuzz", p, n, &f) == DRV_OK)
        for (int i = 0; i < f.n; i++) {
            float x[16];
            int64_t k = f.tensors[i].elements < 16 ? f.tensors[i].elements : 16;
            drv_status s = st_read_f32(&f, &f.tensors[i], f.tensors[i].elements - k, k, x);
            (void)s;
        }
    arena_free(a);
    return 0;
}
