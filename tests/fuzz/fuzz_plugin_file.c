// The header of a file that is named as a PJRT plugin.
#include "fuzz.h"

#include "backend/pjrt/runtime/plugin_file.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    if (plugin_file_check(bytes, n_bytes) != DRV_OK) return;
}
