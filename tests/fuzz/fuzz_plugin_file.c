// The header of a file that is named as a PJRT plugin.
#include <stddef.h>
#include <stdint.h>

#include "backend/pjrt/runtime/plugin_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (plugin_file_check(data, size) != DRV_OK) return 0;
    return 0;
}
