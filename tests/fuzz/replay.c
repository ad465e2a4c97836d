// Runs a fuzz target over the files of a corpus folder, without a fuzzer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int main(int argc, char **argv) {
    arena *a = arena_new("replay");
    char **names, *path;
    int n_files = 0, done = 0;
    size_t size;
    if (argc < 2 || dir_list(a, argv[1], &names, &n_files) != DRV_OK) {
        fprintf(stderr, "usage: %s CORPUS: %s\n", argv[0], drv_message());
        return 2;
    }
    for (int i = 0; i < n_files; i++) {
        if (file_read(a, path_join(a, argv[1], names[i]), &path, &size) != DRV_OK) return 1;
        for (size_t cut = 0; cut <= size;
                cut += cut < 64 ? 1 : 61) { // and every way to cut it short
            uint8_t *copy = mem_alloc(cut);
            memcpy(copy, path, cut);
            LLVMFuzzerTestOneInput(copy, cut);
            free(copy);
        }
        LLVMFuzzerTestOneInput((const uint8_t *)path, size);
        done++;
    }
    arena_free(a);
    printf("%d passed, 0 failed\n", done);
    return done ? 0 : 1;
}
