// Any bytes as model.safetensors.index.json of a folder that holds one.safetensors (tensor w) and
// two.safetensors (v): refused by a message, or both tensors are found in their files and read.
#include "fuzz.h"

#include "source/model_source.h"

static void make_tensor_file(arena *a, const char *name, const char *tensor) {
    static const float values[4] = {1, 2, 3, 4};
    const st_entry entry = {tensor, 2, {2, 2}, ST_F32};
    str bytes = {0};
    st_header(&entry, 1, &bytes);
    str_add(&bytes, values, sizeof values);
    fuzz_file(a, name, bytes.p, bytes.n);
    str_free(&bytes);
}

static void read_all(const model_source *source) {
    for (int i = 0; i < source->n; i++) {
        const source_tensor *t = &source->tensors[i];
        float values[4];
        DRV_ASSERT(model_source_find(source, t->name) == t, "\"%s\" is not found", t->name);
        DRV_ASSERT(source_read_f32(source, t, 0, t->rows, values) == DRV_OK, "%s", drv_message());
        DRV_ASSERT(values[0] == 1 && values[3] == 4, "\"%s\" has other values", t->name);
    }
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    model_source source;
    make_tensor_file(a, "one.safetensors", "w");
    make_tensor_file(a, "two.safetensors", "v");
    fuzz_file(a, "model.safetensors.index.json", bytes, n_bytes);
    if (model_source_open_folder(a, fuzz_folder(), "model", &source) == DRV_OK) {
        DRV_ASSERT(source.n == 1 || source.n == 2, "%d tensors", source.n);
        read_all(&source);
    }
    model_source_close(&source);
}
