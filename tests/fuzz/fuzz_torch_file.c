// Any bytes as a file of torch.save: tensors with their first and last elements, or a message.
#include "fuzz.h"

#include "pickle/torch_file.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const file_part part = {.path = "fuzz", .fd = -1, .memory = bytes, .size = (int64_t)n_bytes};
    torch_file f;
    if (torch_open_part(a, &part, &(torch_opts){.max_values = 100000}, &f) == DRV_OK) {
        for (int i = 0; i < f.n; i++) {
            const torch_tensor *t = &f.tensors[i];
            const int64_t count = t->elements < 100 ? t->elements : 100;
            uint64_t values[100];
            if (torch_read(&f, t, 0, count, values) != DRV_OK) abort();
            if (torch_read(&f, t, t->elements - count, count, values) != DRV_OK) abort();
        }
        torch_close(&f);
    }
}
