// Any bytes as a pickle: values, or a message.
#include "fuzz.h"

#include "pickle/torch_file.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char *const paths[] = {"model", "a.b.0", "0.0.0.0", ""};
    const pickle_opts opts = {.names = torch_names, .max_values = 100000};
    pickle found;
    if (pickle_read(a, "fuzz", 0, bytes, n_bytes, &opts, &found) == DRV_OK) {
        if (found.n_bytes > n_bytes) abort();
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
            pickle_find(found.root, paths[i]);
    }
}
