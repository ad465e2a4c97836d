#include "gguf/gguf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

// Every value by every type, and of each tensor the last row.
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    enum { MOST = 1 << 16 }; // elements
    arena *a = arena_new("fuzz");
    gguf_file f;
    if (gguf_parse(a, "fuzz", p, n, &f) == DRV_OK) {
        for (int i = 0; i < f.n_values; i++) {
            const char *key = f.values[i].key, *text;
            int64_t x, count;
            double real;
            bool yes;
            gguf_text *texts;
            int32_t *ints;
            float *floats;
            const drv_status all[] = {gguf_get_i64(&f, key, &x), gguf_get_f64(&f, key, &real),
                    gguf_get_bool(&f, key, &yes), gguf_get_text(a, &f, key, &text),
                    gguf_get_texts(a, &f, key, &texts, &count),
                    gguf_get_i32s(a, &f, key, &ints, &count),
                    gguf_get_f32s(a, &f, key, &floats, &count)};
            (void)all;
        }
        float *row = mem_alloc(sizeof *row * MOST);
        for (int i = 0; i < f.n_tensors; i++) {
            const gguf_tensor *t = &f.tensors[i];
            if (gguf_cols(t) > MOST) continue;
            const drv_status status = gguf_read_f32(&f, t, gguf_rows(t) - 1, 1, row);
            (void)status;
        }
        free(row);
    }
    gguf_close(&f);
    arena_free(a);
    return 0;
}
