// Any bytes as a pickle: values, or a message.
#include <stdlib.h>

#include "pickle/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    static const char *const paths[] = {"model", "a.b.0", "0.0.0.0", ""};
    arena *a = arena_new("fuzz");
    const pickle_opts opts = {.names = torch_names, .max_values = 100000};
    pickle found;
    if (pickle_read(a, "fuzz", 0, p, n, &opts, &found) == DRV_OK) {
        if (found.n_bytes > n) abort();
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
            pickle_find(found.root, paths[i]);
    }
    arena_free(a);
    return 0;
}
