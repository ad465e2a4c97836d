// Any bytes as model.safetensors.index.json of a folder that holds one.safetensors (tensor w) and
// two.safetensors (v): refused by a message, or both tensors are found in their files and read.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "source/model_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static char dir[64]; // made by the first input, removed at the end

static void write_file(const char *path, const void *bytes, size_t n) {
    DRV_ASSERT(file_write_atomic(path, bytes, n) == DRV_OK, "%s", drv_message());
}

static void make_tensor_file(const char *name, const char *tensor) {
    static const float values[4] = {1, 2, 3, 4};
    const st_entry entry = {tensor, 2, {2, 2}, ST_F32};
    char path[128];
    str bytes = {0};
    st_header(&entry, 1, &bytes);
    str_add(&bytes, values, sizeof values);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    write_file(path, bytes.p, bytes.n);
    str_free(&bytes);
}

static void remove_folder(void) {
    if (dir_remove(dir) != DRV_OK) fprintf(stderr, "%s\n", drv_message());
}

static const char *folder(void) {
    if (*dir) return dir;
    atexit(remove_folder);
    snprintf(dir, sizeof dir, "/tmp/drover-fuzz-index-%d", (int)getpid());
    DRV_ASSERT(dir_make(dir) == DRV_OK, "%s", drv_message());
    make_tensor_file("one.safetensors", "w");
    make_tensor_file("two.safetensors", "v");
    return dir;
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

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    arena *a = arena_new("fuzz");
    model_source source;
    write_file(path_join(a, folder(), "model.safetensors.index.json"), p, n);
    if (model_source_open_folder(a, folder(), "model", &source) == DRV_OK) {
        DRV_ASSERT(source.n == 1 || source.n == 2, "%d tensors", source.n);
        read_all(&source);
    }
    model_source_close(&source);
    arena_free(a);
    return 0;
}
