// Prints the tensors of files of torch.save, for tools/check_torch_files.py: of each file a line
// with its name, and of each tensor one with name, type, shape and bytes in hexadecimal digits.
// usage: torch_values FILE...
#include <stdio.h>
#include <stdlib.h>

#include "pickle/torch_file.h"

static drv_status print_tensor(const torch_file *f, const torch_tensor *t) {
    const int64_t n = t->elements * t->type->bytes;
    unsigned char *bytes = mem_alloc((size_t)n + 1);
    const drv_status status = torch_read(f, t, 0, t->elements, bytes);
    printf("%s\t%s\t", t->name, t->type->name);
    for (int i = 0; i < t->n_dims; i++)
        printf(i ? ",%lld" : "%lld", (long long)t->dim[i]);
    printf("\t");
    for (int64_t i = 0; i < n; i++)
        printf("%02x", bytes[i]);
    printf("\n");
    free(bytes);
    return status;
}

static drv_status print_file(const char *path) {
    arena *a = arena_new("file");
    torch_file f;
    drv_status status = torch_open(a, path, NULL, &f);
    if (status == DRV_OK) {
        for (int i = 0; i < f.n && status == DRV_OK; i++)
            status = print_tensor(&f, &f.tensors[i]);
        torch_close(&f);
    }
    arena_free(a);
    return status;
}

int main(int n, char **paths) {
    for (int i = 1; i < n; i++) {
        printf("file\t%s\n", paths[i]);
        if (print_file(paths[i]) != DRV_OK) printf("refused\t%s\n", drv_message());
    }
    return 0;
}
